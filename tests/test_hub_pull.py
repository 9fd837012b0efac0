"""Models are fetched from a Hub (here on the loop-back) whole, checked, gone on with, and never beyond the disk's room."""

import json
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import COMMIT, FakeHub, blob, fake_hub
from huggingface_hub import constants

from doppler_core.errors import DiskSpaceError, IntegrityError
from doppler_core.settings import EngineSettings
from doppler_plugins import hub as hub_module
from doppler_plugins.cli import program
from doppler_plugins.sources import locate

WEIGHTS = bytes(range(256)) * 2048
CHECKPOINT = {
    "config.json": b"{}",
    "generation_config.json": b'{"top_k": 64}',
    "tokenizer.json": b'{"version": "1.0"}',
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": WEIGHTS,
    "README.md": b"# a model",
    "onnx/model.onnx": b"not wanted",
    "picture.png": b"not wanted",
}
GGUF = {
    "README.md": b"# a model",
    "m-Q4_K_M.gguf": b"GGUF" + WEIGHTS,
    "m-Q8_0.gguf": b"GGUF" + WEIGHTS[:100],
    "big/m-BF16-00001-of-00002.gguf": b"GGUF1",
    "big/m-BF16-00002-of-00002.gguf": b"GGUF2",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub, and the client's cache in a folder of its own."""
    with fake_hub() as server:
        server.files = {"org/model": CHECKPOINT, "org/gguf": GGUF, "org/one": {"only.gguf": b"GGUF"}}
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            server.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
        monkeypatch.setattr("time.sleep", lambda _: None)  # the client waits a second before it tries again
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line; gives code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_is_fetched_whole_and_without_what_no_model_needs(hub: FakeHub, run: Any) -> None:
    code, out, err = run("pull", "org/model", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    wanted = {name: data for name, data in CHECKPOINT.items() if not name.endswith((".onnx", ".png"))}
    assert files_of(Path(found["path"])) == wanted
    assert found["model"] == "hf:org/model"
    assert found["bytes"] == sum(map(len, wanted.values()))


def test_what_is_there_is_not_fetched_again_and_opens_offline(hub: FakeHub, run: Any) -> None:
    run("pull", "hf:org/model")
    hub.requests.clear()
    assert run("pull", "hf:org/model")[0] == 0
    assert not [url for method, url, _ in hub.requests if method == "GET" and "/resolve/" in url]
    hub.requests.clear()
    folder = locate("hf:org/model", EngineSettings(offline=True))
    assert (folder / "config.json").exists()
    assert run("pull", "hf:org/model", "--offline")[0] == 0
    assert hub.requests == []


def test_offline_without_the_model_says_what_to_do(hub: FakeHub, run: Any) -> None:
    for name in ("org/model", "org/gguf/m-Q8_0.gguf"):
        code, _, err = run("pull", f"hf:{name}", "--offline")
        assert code == 2
        assert "run once with the network" in err
    assert hub.requests == []


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("hf:org/gguf", "--file", "*q8_0*"), None),
        (("hf:org/gguf", "--file", "*Q8_0*"), "m-Q8_0.gguf"),
        (("hf:org/gguf", "--file", "m-Q8_0.gguf"), "m-Q8_0.gguf"),
        (("hf:org/gguf/m-Q4_K_M.gguf",), "m-Q4_K_M.gguf"),
        (("hf:org/one",), "only.gguf"),
        (("hf:org/gguf",), None),
        (("hf:org/gguf", "--file", "m-*"), None),
        (("hf:org/gguf", "--file", "nothing"), None),
    ],
)
def test_of_a_repository_of_gguf_files_one_is_fetched(
    hub: FakeHub, run: Any, arguments: tuple[str, ...], file: str | None
) -> None:
    code, out, err = run("pull", *arguments, "--json")
    if file is None:
        assert code == 2
        assert "m-Q4_K_M.gguf  0.5 MB\n  m-Q8_0.gguf  0.0 MB" in err
        assert not hub.gets("m-Q8_0.gguf")
        return
    found = json.loads(out)
    repo = arguments[0].split(":")[1].split("/")[1]
    assert Path(found["path"]).read_bytes() == hub.files[f"org/{repo}"][file]
    assert found["model"] == f"hf:org/{repo}/{file}"
    assert len([url for method, url, _ in hub.requests if method == "GET" and "/resolve/" in url]) == 1
    assert locate(found["model"], EngineSettings(offline=True)) == Path(found["path"])


def test_a_gguf_model_in_parts_comes_with_all_of_them(hub: FakeHub, run: Any) -> None:
    _, out, _ = run("pull", "hf:org/gguf", "--file", "*BF16*", "--json", "--revision", "main")
    found = json.loads(out)
    assert found["model"] == "hf:org/gguf/big/m-BF16-00001-of-00002.gguf@main"
    assert sorted(files_of(Path(found["path"]).parent).values()) == [b"GGUF1", b"GGUF2"]


def test_a_body_that_ends_early_is_gone_on_with_in_the_same_run(hub: FakeHub, run: Any) -> None:
    hub.cut["model.safetensors"] = [1000, 70_000]
    _, out, _ = run("pull", "org/model", "--json")
    assert (Path(json.loads(out)["path"]) / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.gets("model.safetensors") == [None, "bytes=1000-", "bytes=71000-"]


def test_a_run_that_was_stopped_is_gone_on_with_by_the_next(
    hub: FakeHub, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    hub.cut["model.safetensors"] = [200_000]
    monkeypatch.setattr("time.sleep", stop)
    assert run("pull", "org/model")[0] == 130
    monkeypatch.setattr("time.sleep", lambda _: None)
    code, out, _ = run("pull", "org/model", "--json")
    assert code == 0
    assert (Path(json.loads(out)["path"]) / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.gets("model.safetensors") == [None, "bytes=200000-"]
    assert not list(Path(constants.HF_HUB_CACHE).rglob("*.doppler-part"))


def test_what_is_not_what_the_hub_lists_is_removed(hub: FakeHub) -> None:
    folder = Path(constants.HF_HUB_CACHE) / "models--org--model" / "blobs"
    folder.mkdir(parents=True)
    part = folder / f"{blob('model.safetensors', WEIGHTS)}.doppler-part"
    part.write_bytes(b"spoilt")
    with pytest.raises(IntegrityError, match=r"model\.safetensors arrived with the hash"):
        hub_module.download("hf:org/model", None, offline=False)
    assert not part.exists()
    part.write_bytes(WEIGHTS + b"too long")
    assert (hub_module.download("hf:org/model", None, offline=False) / "model.safetensors").exists()


def test_a_hash_that_would_be_a_path_leads_nowhere(hub: FakeHub, tmp_path: Path) -> None:
    hub.listed_hash["model.safetensors"] = "../../../outside"
    folder = hub_module.download("hf:org/model", None, offline=False)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_room_on_the_disk_is_checked_before_anything_is_fetched(
    hub: FakeHub, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = namedtuple("usage", "total used free")
    hub.listed_size["model.safetensors"] = 5_000_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 4_000_000_000))
    code, _, err = run("pull", "org/model")
    assert code == 2
    assert f"5.00 GB are to be downloaded, and the disk of {tmp_path / 'hub'} has 4.00 GB free" in err
    assert "HF_HOME" in err
    assert not [url for _, url, _ in hub.requests if "/resolve/" in url]


def test_what_is_there_already_needs_no_room(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_module.download("hf:org/model", None, offline=False)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 0))
    hub_module.download("hf:org/model", None, offline=False)
    with pytest.raises(DiskSpaceError):
        hub_module.download("hf:org/one", None, offline=False)


def test_a_gated_model_names_the_page_of_its_licence_and_takes_a_token(
    hub: FakeHub, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add("org/model")
    code, _, err = run("pull", "org/model")
    assert code == 2
    assert "open https://huggingface.co/org/model, accept it, log in" in err
    code, _, err = run("pull", "org/model", "--token", "hf_wrong")
    assert code == 2
    assert "the Hub refuses the token (401)" in err
    assert run("pull", "org/model", "--token", "hf_right")[0] == 0
    shutil.rmtree(constants.HF_HUB_CACHE)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert run("pull", "org/model")[0] == 0


def test_what_is_not_there_is_told_apart(hub: FakeHub, run: Any) -> None:
    assert "no such repository" in run("pull", "org/nothing")[2]
    assert "no revision 'v9'" in run("pull", "org/model@v9")[2]
    assert "no revision 'v9'" in run("pull", "org/model", "--revision", "v9")[2]
    assert "'google': expected organisation/name, as the Hub has it\n" in run("pull", "google")[2]
    assert "; did you mean demo-chat, which needs no pull?" in run("pull", "demo-chatt")[2]
    assert "expected hf:organisation/name" in run("pull", "hf:a/b/c")[2]
    assert run("pull", f"org/model@{COMMIT}")[0] == 0


@pytest.mark.parametrize("name", ["demo-chat", "demo_embedding"])
def test_a_bundled_model_needs_no_pull(hub: FakeHub, run: Any, name: str) -> None:
    code, out, err = run("pull", name)
    spelt = name.replace("_", "-")
    assert (code, err) == (0, "")
    assert out == f"{spelt} comes with this package and needs no pull: open it by this name\n"
    found = json.loads(run("pull", name, "--json")[1])
    assert found["model"] == spelt
    assert locate(found["model"], EngineSettings()) == Path(found["path"])
    assert hub.requests == []


def test_a_hub_that_is_away_is_told_so_and_what_is_there_opens_still(
    hub: FakeHub, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("pull", "org/model")
    run("pull", "org/gguf/m-Q8_0.gguf")
    hub.down = 503
    hub.requests.clear()
    told_by_the_hub(run, "the Hub can't be reached (Server error '503 Service Unavailable'")
    assert not [url for _, url, _ in hub.requests if "/resolve/" in url]
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    told_by_the_hub(run, "the Hub can't be reached (Connection refused)")
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    told_by_the_hub(run, "HF_HUB_OFFLINE is set, and")
    assert hub.requests == []


def told_by_the_hub(run: Any, why: str) -> None:
    """Both models that are there open; of those that are not, one line says why, and nothing is tried again."""
    for name in ("org/model", "org/gguf/m-Q8_0.gguf"):
        assert run("pull", name)[0] == 0
    for name in ("org/other", "org/gguf/m-Q4_K_M.gguf"):
        code, out, err = run("pull", name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"doppler-plugins: hf:{name}: {why}")
        assert "the Hub's cache does not hold it (revision main): run once with the network, or give" in err
