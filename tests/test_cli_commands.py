"""The command line, run in this process on the tiny checkpoint: results on stdout, talk on stderr, exit codes."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_fakes import write_distribution

from doppler_plugins import registry as registry_module
from doppler_plugins.cli import extensions, program
from doppler_plugins.sharing import open_count


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own for each test; at the end every engine must be closed."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(folder))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    yield folder
    assert open_count() == 0


class Done:
    """What a command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


def test_embed_gives_one_json_line_per_text(run: Any, tiny_artifact: Path) -> None:
    done = run("embed", tiny_artifact, "one", "two words")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [line["source"] for line in lines] == ["argument 1", "argument 2"]
    assert all(len(line["vector"]) == 64 for line in lines)
    assert np.linalg.norm(lines[1]["vector"]) == pytest.approx(1, abs=1e-5)


def test_embed_with_json_is_one_object_with_all_vectors(run: Any, tiny_artifact: Path) -> None:
    done = run("embed", tiny_artifact, "one", "two", "--json")
    assert done.json["texts"] == 2
    assert done.json["device"] == "numpy"
    assert np.array(done.json["vectors"]).shape == (2, 64)


def test_queries_and_documents_get_their_own_prompts(run: Any, tiny_artifact: Path) -> None:
    as_query = run("embed", tiny_artifact, "tea", "--query", "--json").json
    as_document = run("embed", tiny_artifact, "tea", "--json").json
    bare = run("embed", tiny_artifact, "tea", "--prompt", "", "--json").json
    named = run("embed", tiny_artifact, "tea", "--prompt-name", "query", "--json").json
    assert as_query["vectors"] != as_document["vectors"]
    assert bare["tokens"] < as_document["tokens"]
    assert named["vectors"] == as_query["vectors"]


def test_stdin_gives_a_vector_per_line_empty_lines_too(
    run: Any, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\r\n\nthree\n")))
    done = run("embed", tiny_artifact)
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == ["line 1", "line 2", "line 3"]


def test_a_line_that_is_no_utf8_is_an_error_that_names_it(
    run: Any, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\nbroken \xff byte\n")))
    done = run("embed", tiny_artifact)
    assert done.code == 2
    assert "line 2 of stdin: expected UTF-8 text, found byte 0xff at 7" in done.err


def test_a_dash_reads_stdin_in_its_place(
    run: Any, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    done = run("embed", tiny_artifact, "first", "-", "last")
    found = [json.loads(line)["source"] for line in done.out.splitlines()]
    assert found == ["argument 1", "line 1", "line 2", "argument 3"]


def test_a_terminal_without_texts_is_told_what_to_give(
    run: Any, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    done = run("embed", tiny_artifact)
    assert done.code == 2
    assert "--file" in done.err


def test_a_folder_gives_each_text_file_in_order(run: Any, tiny_artifact: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    (texts / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.md", "sub/c.txt", "ignored.png"):
        (texts / name).write_text(name, "utf-8")
    done = run("embed", tiny_artifact, "--file", texts)
    found = [json.loads(line)["source"] for line in done.out.splitlines()]
    assert found == [str(texts / name) for name in ("a.md", "b.txt", "sub/c.txt")]


def test_vectors_go_into_files_that_are_whole_or_absent(
    run: Any, tiny_artifact: Path, tmp_path: Path
) -> None:
    array, lines = tmp_path / "vectors.npy", tmp_path / "vectors.jsonl"
    assert run("embed", tiny_artifact, "a", "b", "c", "--out", array).code == 0
    assert np.load(array).shape == (3, 64)
    assert run("embed", tiny_artifact, "a", "--out", lines, "--output-dtype", "int8").code == 0
    assert isinstance(json.loads(lines.read_text())["vector"][0], int)
    failed = tmp_path / "failed.npy"
    assert run("embed", tiny_artifact, "word " * 2000, "--out", failed).code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vectors.jsonl", "vectors.npy"]
    done = run("embed", tiny_artifact, "a", "--out", tmp_path / "vectors.txt")
    assert (done.code, ".npy or .jsonl" in done.err) == (2, True)


def test_a_folder_that_can_not_take_the_vectors_is_named(
    run: Any, tiny_artifact: Path, tmp_path: Path
) -> None:
    away, no_folder = tmp_path / "away" / "o.jsonl", tmp_path / "file" / "o.npy"
    no_folder.parent.write_text("")
    done = run("embed", tiny_artifact, "a", "--out", away)
    assert done.code == 2
    assert f"--out {away}: there is no folder {away.parent}; make it" in done.err
    done = run("embed", tiny_artifact, "a", "--out", no_folder)
    assert done.code == 2
    assert f"--out {no_folder}: {no_folder.parent} can't be written" in done.err


def test_a_text_that_is_too_long_is_named_and_can_be_cut(run: Any, tiny_artifact: Path) -> None:
    done = run("embed", tiny_artifact, "word " * 2000)
    assert done.code == 2
    assert done.out == ""
    assert re.search(r": argument 1 has \d+ tokens .* takes 256: split it, or --truncate\n", done.err)
    cut = run("embed", tiny_artifact, "word " * 2000, "--truncate")
    assert json.loads(cut.out)["truncated"] is True
    assert "argument 1" in cut.err


def test_a_text_that_is_too_long_is_named_in_whichever_batch_it_comes(
    run: Any, tiny_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doppler_plugins.cli.embed._BATCH", 2)
    texts = ["short"] * 3 + ["word " * 2000, "short"]
    folder = tmp_path / "big"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    assert f"{folder / '3.txt'} has " in run("embed", tiny_artifact, "--file", folder).err
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts)))
    assert ": line 4 has " in run("embed", tiny_artifact).err


def test_convert_lists_what_the_checkpoint_said_and_fills_the_cache(
    run: Any, tiny_checkpoint: Path, cache: Path
) -> None:
    done = run("convert", tiny_checkpoint, "--precision", "f32", "--json").json
    assert done["was_there"] is False
    assert {"path", "value", "source"} == set(done["resolutions"][0])
    assert "inference.attention.slidingWindow" in [one["path"] for one in done["resolutions"]]
    assert Path(done["artifact"]).parent == cache
    assert run("convert", tiny_checkpoint, "--precision", "f32", "--json").json["was_there"] is True


def test_convert_into_a_folder_refuses_one_that_is_taken_unless_forced(
    run: Any, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("convert", tiny_checkpoint, "--out", out).code == 0
    assert "--force" in run("convert", tiny_checkpoint, "--out", out).err
    assert run("convert", tiny_checkpoint, "--out", out, "--force").code == 0
    assert "already" in run("convert", out).err


def test_verify_reads_every_byte_and_names_the_file_that_changed(
    run: Any, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run("convert", tiny_checkpoint, "--out", out)
    assert run("verify", out, "--json").json == {"artifact": str(out), "ok": True}
    shard = next(out.glob("*.bin"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    done = run("verify", out)
    assert done.code == 2
    assert shard.name in done.err


def test_plan_prints_every_op_and_as_json_the_same(run: Any, tiny_artifact: Path) -> None:
    text = run("plan", tiny_artifact, "--cost").out
    found = run("plan", tiny_artifact, "--cost", "--json").json
    ops = found["phases"]["encode"]
    assert sum(op["role"] == "q_proj" for op in ops) == 4
    assert len([line for line in text.splitlines() if ".wgsl#" in line]) == len(ops)
    assert found["cost"]["residentBytes"]["numpy"] > 0
    assert "encode" in run("plan", tiny_artifact, "--phase", "decode").err


def test_pin_writes_the_digests_and_nothing_else(run: Any, tiny_artifact: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    original = (tiny_artifact / "manifest.json").read_text()
    digest = json.loads(original)["execution"]["kernels"]["rope"]["digest"]
    manifest.write_text(original.replace(digest, "sha256:" + "0" * 64))
    assert run("pin", manifest, "--json").json[0]["written"] == ["rope"]
    assert manifest.read_text() == original
    assert run("pin", manifest, "--json").json[0]["written"] == []


def test_models_lists_and_removes_what_is_in_the_cache(run: Any, tiny_checkpoint: Path, cache: Path) -> None:
    name = Path(run("convert", tiny_checkpoint, "--json").json["artifact"]).name
    (listed,) = [model for model in run("models", "--json").json["models"] if model["where"] == "cached"]
    assert listed["name"] == name
    assert listed["bytes"] > 0
    assert run("embed", name, "by its cached name", "--json").code == 0
    done = run("models", "remove", name, "no-such-model")
    assert (done.code, (cache / name).exists()) == (2, True)
    assert run("models", "remove", name, "--json").json["bytes"] == listed["bytes"]
    assert not (cache / name).exists()


@pytest.mark.parametrize("name", ["../outside", "/", ".", "..", ""])
def test_removing_reaches_nothing_outside_the_cache(run: Any, cache: Path, name: str) -> None:
    outside = cache.parent / "outside"
    outside.mkdir()
    (outside / "artifact.json").write_text("{}")
    assert run("models", "remove", name).code == 2
    assert (outside / "artifact.json").exists()


def test_bench_measures_documents_and_queries(
    run: Any, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doppler_plugins.cli.bench._LONGEST", 30)  # the tiny model takes 256 tokens
    done = run("bench", "embed", tiny_artifact, "--documents", "5", "--repeats", "2", "--json").json
    assert done["documents_per_second"] == pytest.approx(5 / done["seconds"])
    assert len(done["seconds_each"]) == 2
    assert done["query_seconds"] > 0


def test_plugins_lists_and_checks(run: Any) -> None:
    records = run("plugins", "--json").json
    assert [record["name"] for record in records] == [
        "causal",
        "diffusion_gemma",
        "embedding",
        "langchain.chat",
        "langchain.embeddings",
        "langchain.llm",
        "llama_index.embedding",
        "llama_index.llm",
    ]
    assert {record["status"] for record in records} == {"declared"}
    checked = run("plugins", "--check", "--json")
    assert checked.code == 0
    assert {record["status"] for record in checked.json} <= {"loaded", "unavailable"}


def test_plugins_still_lists_when_one_is_broken_and_strict_is_set(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_distribution(tmp_path, "sick", {"doppler_plugins": {"sick": "no_such_module_anywhere"}})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DOPPLER_PLUGINS_STRICT", "1")
    assert run("plugins").code == 0
    checked = run("plugins", "--check")
    assert checked.code == 1
    assert "no_such_module_anywhere" in checked.out


@pytest.fixture
def command_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that adds the command `hello`, tries to replace `embed`, and one that raises half-way."""
    good = """
        import click
        import doppler_plugins

        @doppler_plugins.hookimpl
        def doppler_register_commands(cli):
            @cli.command()
            def hello():
                click.echo("hello from a plugin")

            @cli.command()
            def embed():
                click.echo("replaced")
    """
    bad = """
        import doppler_plugins

        @doppler_plugins.hookimpl
        def doppler_register_commands(cli):
            @cli.command()
            def half(): ...
            raise RuntimeError("half-way")
    """
    for name, text in (("good", good), ("bad", bad)):
        write_distribution(
            tmp_path,
            f"cli-{name}",
            {"doppler_plugins": {f"cli-{name}": f"cli_{name}_module"}},
            {f"cli_{name}_module": text},
        )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry_module, "_registry", None)
    fresh = extensions.CommandGroup(
        "doppler-plugins",
        commands=dict(program.cli.commands),
        params=program.cli.params,
        callback=program.cli.callback,
    )
    monkeypatch.setattr(program, "cli", fresh)


@pytest.mark.usefixtures("command_plugin")
def test_a_plugin_adds_commands_and_replaces_none(run: Any, tiny_artifact: Path) -> None:
    assert run("hello").out == "hello from a plugin\n"
    assert run("half").code == 2
    assert "replaced" not in run("embed", tiny_artifact, "text").out
    assert "hello" in run("--help").out
    records = {record.name: record for record in registry_module.plugins().records}
    assert records["cli_good"].provides == ("command hello",)
    assert "embed" in records["cli_good"].warnings[0]
    assert "half-way" in records["cli_bad"].reason
    checked = run("plugins", "--check")
    assert checked.code == 1
    assert "cli_good: the command embed exists and was not replaced" in checked.out
    assert "the command hello" not in checked.out


@pytest.mark.parametrize(
    ("hook", "arguments", "code", "reason"),
    [
        ("doppler_register_adapter", "register", 1, "did you mean doppler_register_adapters?"),
        ("doppler_register_commands", "cli", 0, "mis  "),
        ("doppler_resolve_model", "ref", 0, "  hook doppler_resolve_model\n"),
    ],
)
def test_hooks_are_listed_and_the_check_fails_for_one_that_does_not_exist(
    run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook: str,
    arguments: str,
    code: int,
    reason: str,
) -> None:
    text = f"import doppler_plugins\n@doppler_plugins.hookimpl\ndef {hook}({arguments}): ...\n"
    module = f"{hook}_module"
    write_distribution(tmp_path, "mis", {"doppler_plugins": {"mis": module}}, {module: text})
    monkeypatch.syspath_prepend(tmp_path)
    checked = run("plugins", "--check")
    assert checked.code == code
    assert reason in checked.out


@pytest.mark.parametrize("group", [(), ("models",), ("bench",)])
def test_the_help_cuts_no_command_s_line_off(run: Any, group: tuple[str, ...]) -> None:
    lines = run(*group, "--help").out.partition("Commands:")[2].splitlines()[1:]
    assert lines
    assert all(re.fullmatch(r"  \w+ +\w.*\.", line) and not line.endswith("...") for line in lines)
