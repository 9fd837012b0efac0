"""`--canvas-html`: one page with all that it needs, in which nothing that a token or a text spells can run."""

import base64
import errno
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_plugins.cli.canvas_page import page
from doppler_plugins.cli.canvas_view import Name, naming
from tests.canvases import ANSWER, WORDS, WordTokenizer, forming
from tests.scripted_generator import ScriptedGenerator, interrupt_at_5

NAME = naming(WordTokenizer())  # type: ignore[arg-type]
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>&quot;{{run}}\u2028{{title}}"


class Read(HTMLParser):
    """A page as a browser takes it apart: its tags, and the texts of its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._texts: list[tuple[str, str]] = []
        self._open = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._texts.append((tag, ""))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            tag, before = self._texts.pop()
            self._texts.append((tag, before + data))

    def all_of(self, tag: str) -> list[str]:
        """The texts of elements, up to the first tag in them."""
        return [text for found, text in self._texts if found == tag]

    @property
    def run(self) -> Any:
        return json.loads(self.all_of("script")[0])


def made(name: Any = NAME, **texts: str) -> str:
    said = {"title": "model on numpy", "facts": "16 tokens", "prompt": "Why?", "answer": "Owls.", **texts}
    return page(**said, canvases=forming(), name=name)  # type: ignore[arg-type]


def test_the_page_holds_every_step() -> None:
    run, canvases = Read(made()).run, forming()
    assert run["facts"] == "16 tokens"
    assert [frame["step"] for frame in run["frames"]] == [1, 2, 3, 4, 5, 6]
    first, last = run["frames"][0], run["frames"][-1]
    assert "".join(run["names"][one] for one in last["shown"]) == (
        "Owls fly almost without a sound.↵\n Their feathers are soft.<turn|>··"
    )
    assert (first["canvas"], first["steps"], first["accepted"]) == (0, 8, 0.3125)
    assert first["shades"] == "ss" + "aaa" + "n" * 11
    assert last["shades"] == "s" * 16
    assert first["entropies"] == [round(100 * one) for one in canvases[0].entropies]
    likeliest = [run["names"][one] for one in first["likeliest"]]
    assert likeliest == [NAME(token).text for token in canvases[0].ids]
    assert len(set(run["names"])) == len(run["names"])


def test_the_page_fetches_nothing_and_runs_its_one_script() -> None:
    text = made()
    assert not re.search(r"https?:|//[a-z]|\bimport\b|fetch\(|XMLHttp|url\(|@import", text)
    read = Read(text)
    for tag, attributes in read.tags:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert not {"src", "href", "srcdoc", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    (policy,) = [str(found["content"]) for tag, found in read.tags if "http-equiv" in found]
    assert policy.startswith("default-src 'none'; ")
    _, script = read.all_of("script")
    (style,) = read.all_of("style")
    for kind, source in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(", script)


def test_what_the_script_looks_for_is_there() -> None:
    read = Read(made())
    _, script = read.all_of("script")
    ids = {found["id"] for _, found in read.tags if "id" in found}
    (listed,) = re.findall(r"\[((?:\"\w+\"(?:, )?)+)\]\s+\.map", script)
    assert {*json.loads(f"[{listed}]"), *re.findall(r'getElementById\("(\w+)"\)', script)} <= ids
    assert {"run", "step", "play", "heat"} <= ids


def test_the_page_is_readable_without_its_script() -> None:
    read = Read(made(prompt="Why do owls fly?", answer="Soft feathers."))
    assert {"Why do owls fly?", "Soft feathers."} <= set(read.all_of("p"))
    assert ("section", {"id": "replay", "hidden": None}) in read.tags


@pytest.mark.parametrize("text", [HOSTILE, "</ScRiPt >", "<!--<script>", "]]>", "\ud800", "{{answer}}"])
def test_hostile_texts_are_texts(text: str, tmp_path: Path) -> None:
    whole = made(lambda token: Name(text), title=text, prompt=text, answer=text, facts=text)
    (tmp_path / "page.html").write_text(whole, "utf-8", errors="replace")
    read = Read(whole)
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in Read(made()).tags]
    assert len(read.all_of("script")) == 2
    assert read.run["names"] == [text]
    assert read.run["facts"] == text
    assert read.all_of("title") == [text]
    assert read.all_of("h1")[0] == text
    assert "<" not in re.findall(r'type="application/json">(.*?)</script>', whole, re.DOTALL)[0]


@settings(max_examples=50)
@given(st.text(), st.text())
def test_any_text_comes_back_as_it_went_in(prompt: str, token: str) -> None:
    read = Read(made(lambda number: Name(token), prompt=prompt))
    assert read.run["names"][0] in (token, token.replace("\n", ""))
    if prompt.strip() and "\r" not in prompt and "\x00" not in prompt:
        assert prompt in read.all_of("p")


def test_the_command_writes_the_page_and_says_so(run: Any, script: ScriptedGenerator, tmp_path: Path) -> None:
    script.canvases = [*forming(), *forming(number=1)]
    path = tmp_path / "run.html"
    done = run("generate", "model", "Why?", "--canvas-html", path)
    assert (done.code, done.out) == (0, "Hello there.\n")
    assert done.err.splitlines()[-1] == f"{path}: 12 steps to replay"
    assert len(done.err.splitlines()) == 2, "no canvas is shown where nobody asked for it"
    read = Read(path.read_text("utf-8"))
    assert [frame["canvas"] for frame in read.run["frames"]] == [0] * 6 + [1] * 6
    assert read.run["facts"] == done.err.splitlines()[0]
    assert read.all_of("title") == ["model on scripted"]
    assert {"Why?", "Hello there."} <= set(read.all_of("p"))


def test_in_json_the_page_brings_no_canvases(run: Any, script: ScriptedGenerator, tmp_path: Path) -> None:
    script.canvases = forming()
    done = run("generate", "model", "x", "--json", "--canvas-html", tmp_path / "run.html")
    assert [one["text"] for one in done.lines] == ["Hello", " there", ".", ""]
    assert (tmp_path / "run.html").exists()


def test_an_interrupted_run_can_be_replayed_up_to_there(
    run: Any, script: ScriptedGenerator, tmp_path: Path
) -> None:
    script.canvases, script.before_step = forming(steps=400), interrupt_at_5
    done = run("generate", "model", "x", "--canvas-html", tmp_path / "run.html")
    assert done.code == 130
    found = Read((tmp_path / "run.html").read_text("utf-8")).run
    assert 5 <= len(found["frames"]) < 400
    assert found["facts"] == "stopped before its end"


def test_a_page_that_can_not_be_written_is_refused_before_the_model_runs(
    run: Any, script: ScriptedGenerator, tmp_path: Path
) -> None:
    script.canvases = forming()
    done = run("generate", "model", "x", "--canvas-html", tmp_path / "none" / "run.html")
    assert (done.code, done.out) == (2, "")
    assert "there is no folder" in done.err
    assert run("generate", "model", "x", "--canvas-html", tmp_path).code == 2
    assert script.asked == []


def test_a_page_that_the_disk_has_no_room_for_is_named_and_the_answer_stands(
    run: Any, script: ScriptedGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # of a write: without the file's name

    monkeypatch.setattr(Path, "write_text", full)
    script.canvases, path = forming(), tmp_path / "run.html"
    done = run("generate", "model", "x", "--canvas-html", path)
    assert (done.code, done.out) == (2, "Hello there.\n")
    assert done.err.endswith(
        f"doppler-plugins: {path}: the page can't be written (No space left on device)\n"
    )


def test_a_run_without_canvases_leaves_no_page(run: Any, script: ScriptedGenerator, tmp_path: Path) -> None:
    script.canvases = forming()
    assert run("generate", "model", "word " * 101, "--canvas-html", tmp_path / "run.html").code == 2
    assert not (tmp_path / "run.html").exists()


def test_a_page_of_the_largest_canvas_stays_small() -> None:
    steps = forming(ANSWER * 16, steps=48, most=48)
    text = page("m", "", "", "", [replace(one, number=0) for one in steps], NAME)
    # 48 steps of 256 positions: two places among the names, a shade and an entropy each; 12 bytes and the template.
    assert len(text) < 48 * 256 * 14 + 20_000
    assert len(WORDS) < len(Read(text).run["names"]) < 3 * len(WORDS)
