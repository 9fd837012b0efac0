"""A Hub on the loop-back: repositories in memory, the part of the API that its client uses to download, and its faults."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """What the Hub holds, and what it was asked.

    files: of each repository, by path. gated: repositories that want `token`. cut: paths that end early, and after how
    many bytes, once each. listed_size, listed_hash: what the Hub says of a path, where that is not so.
    down: the status that it answers everything with.
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    token: str = "hf_right"
    cut: dict[str, list[int]] = field(default_factory=dict)
    listed_size: dict[str, int] = field(default_factory=dict)
    listed_hash: dict[str, str] = field(default_factory=dict)
    down: int = 0
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    url: str = ""

    def gets(self, path: str) -> list[str | None]:
        """The Range of each GET of a file."""
        return [span for method, url, span in self.requests if method == "GET" and url.endswith(f"/{path}")]


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running server."""
    hub = FakeHub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def is_large(path: str) -> bool:
    """Whether the Hub stores a file by its sha256."""
    return path.endswith((".safetensors", ".gguf"))


def blob(path: str, data: bytes) -> str:
    """The name of a file's content."""
    return hashlib.sha256(data).hexdigest() if is_large(path) else hashlib.sha1(data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing: the tests look at `requests`."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        given = self.headers.get("Authorization")
        if self.hub.down:
            self._fail(self.hub.down, "", "down for maintenance")
        elif given not in (None, f"Bearer {self.hub.token}"):
            self._fail(401, "", "Invalid credentials in Authorization header")
        elif path.startswith("/api/models/"):
            self._api(path.removeprefix("/api/models/"), parse_qs(parts.query))
        else:
            repo, _, rest = path.lstrip("/").partition("/resolve/")
            revision, _, name = rest.partition("/")
            if repo in self.hub.gated and given is None:
                self._fail(401, "GatedRepo", "Access is restricted")
            elif self._known(repo, revision) and name not in self.hub.files[repo]:
                self._fail(404, "EntryNotFound", "")
            elif self._known(repo, revision):
                self._file(name, self.hub.files[repo][name])
            else:
                self._fail(404, "RepoNotFound", "")

    def _known(self, repo: str, revision: str) -> bool:
        return repo in self.hub.files and revision in ("main", COMMIT)

    def _api(self, path: str, query: dict[str, list[str]]) -> None:
        org, name, *rest = path.split("/")
        repo = f"{org}/{name}"
        kind, revision = (rest[0], "/".join(rest[1:])) if rest else ("revision", "main")
        if repo not in self.hub.files:
            self._fail(404, "RepoNotFound", "Repository not found")
        elif not self._known(repo, revision):
            self._fail(404, "RevisionNotFound", "Invalid rev id")
        elif kind == "tree":
            self._json(
                [{"type": "file", "path": path, **self._facts(repo, path)} for path in self.hub.files[repo]]
            )
        else:
            siblings: list[dict[str, Any]] = [{"rfilename": path} for path in self.hub.files[repo]]
            if "blobs" in query:
                for sibling in siblings:
                    facts = self._facts(repo, sibling["rfilename"])
                    sibling |= {"size": facts["size"], "blobId": facts["oid"]}
                    if "lfs" in facts:
                        sibling["lfs"] = {
                            "sha256": facts["lfs"]["oid"],
                            "size": facts["size"],
                            "pointerSize": 130,
                        }
            self._json({"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings})

    def _facts(self, repo: str, path: str) -> dict[str, Any]:
        data = self.hub.files[repo][path]
        size = self.hub.listed_size.get(path, len(data))
        facts: dict[str, Any] = {"size": size, "oid": hashlib.sha1(data).hexdigest()}
        if is_large(path):
            facts["lfs"] = {
                "oid": self.hub.listed_hash.get(path, blob(path, data)),
                "size": size,
                "pointerSize": 130,
            }
        return facts

    def _file(self, path: str, data: bytes) -> None:
        begin = 0
        if span := self.headers.get("Range"):
            begin = int(span.removeprefix("bytes=").split("-")[0])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.send_header("ETag", f'"{blob(path, data)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            cut = self.hub.cut.get(path)
            end = begin + cut.pop(0) if cut else len(data)
            self.wfile.write(data[begin:end])
            if end < len(data):
                self.wfile.flush()
                self.close_connection = True

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()
