"""What goes wrong on the command line is one message and an exit code, whatever it is; with --json it is JSON, too."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from doppler_core.errors import DiskSpaceError
from doppler_plugins.cli import program
from doppler_plugins.cli.program import cli


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no.json").write_text("no JSON")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process; gives code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return program.run(arguments), *capsys.readouterr()

    return call


def commands(group: click.Group = cli, *before: str) -> Iterator[tuple[str, click.Command]]:
    """Every built-in command with its whole name."""
    for name, command in group.commands.items():
        yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


#: A line of each command that takes an argument, with nothing that it leads to.
WRONG = {
    "embed": "embed nothing text",
    "generate": "generate nothing text",
    "chat": "chat nothing",
    "pull": "pull nothing",
    "convert": "convert nothing",
    "plan": "plan nothing",
    "pin": "pin no.json",
    "verify": "verify nothing",
    "models remove": "models remove nothing",
    "bench embed": "bench embed nothing",
    "bench generate": "bench generate nothing",
}
NEEDY = {
    name: command
    for name, command in commands()
    if any(isinstance(param, click.Argument) for param in command.params)
}


def test_every_command_that_takes_an_argument_is_asked_here() -> None:
    assert set(WRONG) == set(NEEDY)


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_that_is_missing_is_named_with_the_usage(run: Any, name: str) -> None:
    code, out, err = run(*name.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: doppler-plugins {name} [OPTIONS] ")
    assert err.splitlines()[-1].startswith("Error: Missing argument '")


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_one_line_on_stderr(run: Any, name: str) -> None:
    code, out, err = run(*WRONG[name].split())
    assert (code, out) == (2, "")
    assert err.startswith("doppler-plugins: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_told_as_json_too_where_that_was_asked_for(run: Any, name: str) -> None:
    code, out, err = run(*WRONG[name].split(), "--json")
    told = json.loads(out)["error"]
    assert (code, err) == (2, f"doppler-plugins: {told['message']}\n")
    assert told["type"] == ("ManifestError" if name == "pin" else "ModelNotFoundError")


@pytest.mark.parametrize(
    "name", [name for name in WRONG if " nothing" in WRONG[name] and "models" not in name]
)
@pytest.mark.parametrize("what", ["no.json", "empty", "cut.gguf", "away/there", "", "\0", "a" * 5000])
def test_what_is_no_model_is_refused_whatever_it_is(run: Any, name: str, what: str) -> None:
    words = [what if word == "nothing" else word for word in WRONG[name].split()]
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("doppler-plugins: ")
    assert err.count("\n") == 1


def test_of_the_embedding_and_generating_commands_the_other_is_named(run: Any) -> None:
    for line, other in (
        ("generate demo-embedding x", "`doppler-plugins embed`"),
        ("chat demo-embedding", "`doppler-plugins embed`"),
        ("embed demo-chat x", "`doppler-plugins generate`"),
        ("bench generate demo-embedding", "`doppler-plugins bench embed`"),
        ("bench embed demo-chat", "`doppler-plugins bench generate`"),
    ):
        code, _, err = run(*line.split())
        assert code == 2
        assert f"{other} is for it" in err


@pytest.mark.parametrize("size", ["2", "much", "-3GB", "2 G"])
def test_a_size_that_is_none_or_too_small_is_refused(run: Any, size: str) -> None:
    code, _, err = run("embed", "demo-embedding", "x", "--device", "numpy", f"--memory-limit={size}")
    assert code == 2
    assert "memory_limit" in err.replace("--memory-limit", "memory_limit")


def test_a_bundled_model_can_not_be_removed(run: Any) -> None:
    code, _, err = run("models", "remove", "demo-chat")
    assert code == 2
    assert "demo-chat comes with the package" in err


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError("Unable to allocate 40 GiB"), "the memory is full (Unable to allocate 40 GiB): close"),
        (MemoryError(), "the memory is full: close"),
        (OSError(28, "No space left on device"), "No space left on device\n"),
        (PermissionError(13, "Permission denied", "/a/file"), "/a/file: Permission denied\n"),
        (OSError("a library's own words"), "a library's own words\n"),
        (DiskSpaceError("40 GB are needed"), "40 GB are needed\n"),
    ],
)
def test_an_error_of_the_system_is_a_message_too(
    run: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("doppler_plugins.opening.open_engine", fail)
    code, out, err = run("embed", "demo-embedding", "text")
    assert (code, out) == (2, "")
    assert err.startswith(f"doppler-plugins: {says}")


@pytest.mark.parametrize("out", ["no.json/folder", "/proc/folder"])
def test_a_folder_that_can_not_be_made_is_named_with_what_to_give(
    run: Any, tiny_checkpoint: Path, out: str
) -> None:
    code, _, err = run("convert", str(tiny_checkpoint), "--out", out)
    assert code == 2
    assert err.startswith(f"doppler-plugins: {out}: the converted model can't be written (")
    assert "Errno" not in err
    assert "give a folder that you may write" in err


def test_an_output_that_is_full_is_a_message(tmp_path: Path) -> None:
    code = "from doppler_plugins.cli import main; main()"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "models"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"doppler-plugins: No space left on device\n")


def test_ctrl_c_before_the_command_is_there_is_an_interruption_as_any() -> None:
    code = (
        "import sys\n"
        "from doppler_plugins.cli import main\n"
        "class Impatient:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'doppler_plugins.cli.program': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "models"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
