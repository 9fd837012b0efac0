"""The command as a process: what a shell sees of errors, interruptions and closed pipes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from doppler_plugins.cli import main; main()"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The process's variables, with NumPy and a cache of its own."""
    own = {"DOPPLER_PLUGINS_CACHE_DIR": str(tmp_path / "cache"), "DOPPLER_PLUGINS_DEVICE": "numpy"}
    return {**os.environ, **own}


def run(
    environment: dict[str, str], *arguments: object, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        env=environment,
        capture_output=True,
        check=False,
        timeout=60,
    )


def test_an_error_is_one_message_on_stderr_and_exit_code_two(environment: dict[str, str]) -> None:
    done = run(environment, "embed", "no-such-model", "text")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().startswith("doppler-plugins: model 'no-such-model'")
    assert b"Traceback" not in done.stderr


def test_the_package_runs_as_a_module(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doppler_plugins", "--version"],
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().startswith("doppler-plugins, version ")


def test_debug_shows_where_an_error_came_from(environment: dict[str, str]) -> None:
    done = run(environment, "--debug", "embed", "no-such-model", "text")
    assert done.returncode == 2
    assert b"Traceback" in done.stderr
    assert b"Traceback" in run(environment, "--log-level", "debug", "embed", "no-such-model", "text").stderr


def test_a_wrong_variable_is_an_error_too(environment: dict[str, str]) -> None:
    done = run({**environment, "DOPPLER_PLUGINS_DEVICE": "abacus"}, "embed", "demo-embedding", "text")
    assert done.returncode == 2
    assert b"device='abacus'" in done.stderr


def test_what_is_logged_goes_to_stderr_and_the_result_alone_to_stdout(
    environment: dict[str, str], tiny_artifact: Path
) -> None:
    done = run(environment, "--debug", "embed", tiny_artifact, "text")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert json.loads(done.stdout)["source"] == "argument 1"


def test_a_closed_pipe_ends_the_command_quietly(environment: dict[str, str], tiny_artifact: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "embed", str(tiny_artifact)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018
        # Two batches of lines, more than a pipe holds: the second write meets the closed end.
        process.stdin.write(b"text\n" * 512)
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 141
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


def test_ctrl_c_ends_the_command_with_130(environment: dict[str, str], tiny_artifact: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "embed", str(tiny_artifact)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018
        # A whole batch comes back, so that the command is certainly waiting for more lines.
        process.stdin.write(b"text\n" * 256)
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted" in errors
    assert b"Traceback" not in errors


def test_a_file_that_can_not_be_written_is_an_error_that_names_it(
    environment: dict[str, str], tiny_artifact: Path
) -> None:
    done = run(environment, "embed", tiny_artifact, "text", "--out", "/proc/no/vectors.npy")
    assert done.returncode == 2
    assert b"/proc/no" in done.stderr
    assert b"Traceback" not in done.stderr


def test_text_that_is_no_utf8_is_named_with_its_place(
    environment: dict[str, str], tiny_artifact: Path, tmp_path: Path
) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    done = run(environment, "embed", tiny_artifact, "--file", tmp_path / "latin.txt")
    assert done.returncode == 2
    assert b"latin.txt: expected UTF-8 text, found byte 0xe9 at 3" in done.stderr


@pytest.mark.parametrize("file", ["/proc/self/mem", "/proc/self/task"])
def test_a_file_that_can_not_be_read_is_an_error_that_names_it(
    environment: dict[str, str], tiny_artifact: Path, file: str
) -> None:
    done = run(environment, "embed", tiny_artifact, "--file", file)
    assert done.returncode == 2
    assert file.encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "arguments", [("embed", "MODEL"), ("embed", "MODEL", "text"), ("models",), ("nonsense",)]
)
def test_streams_that_the_caller_closed_are_streams_that_nobody_reads(
    environment: dict[str, str], tiny_artifact: Path, tmp_path: Path, closed: str, arguments: tuple[str, ...]
) -> None:
    words = [str(tiny_artifact) if word == "MODEL" else word for word in arguments]
    # The streams that are not closed, in files: a pipe's number could be taken by what is opened next.
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=False,
            timeout=60,
        )
    assert done.returncode == (2 if arguments == ("nonsense",) else 0)
    assert b"Traceback" not in (tmp_path / "out").read_bytes() + (tmp_path / "err").read_bytes()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("form", ["lines", "json", "file"])
def test_every_name_of_a_file_is_written_so_that_json_reads_it_back(
    environment: dict[str, str], tiny_artifact: Path, tmp_path: Path, form: str, encoding: str
) -> None:
    names = [b"plain.txt", "caf\u00e9.txt".encode(), b"byte\xff.txt"]
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in names:
        (folder / os.fsdecode(name)).write_text("text")
    arguments = {"lines": [], "json": ["--json"], "file": ["--out", tmp_path / "out.jsonl"]}[form]
    told = {**environment, "PYTHONIOENCODING": encoding}
    done = run(told, "embed", tiny_artifact, "--file", folder, *arguments)
    assert done.returncode == 0, done.stderr
    if form == "json":
        assert json.loads(done.stdout.decode(encoding))["texts"] == 3
        return
    text = (tmp_path / "out.jsonl").read_text("utf-8") if form == "file" else done.stdout.decode(encoding)
    sources = {json.loads(line)["source"] for line in text.splitlines()}
    assert sources == {str(folder / os.fsdecode(name)) for name in names}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", [b"byte\xff", "\u65e5".encode()])
def test_every_name_of_a_folder_is_told(
    environment: dict[str, str], tmp_path: Path, name: bytes, encoding: str
) -> None:
    folder = tmp_path / os.fsdecode(name)
    told = {**environment, "PYTHONIOENCODING": encoding, "DOPPLER_PLUGINS_CACHE_DIR": str(folder)}
    done = run(told, "models")
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"cache: {tmp_path}".encode() in done.stdout


def test_a_user_without_a_home_can_use_what_needs_none(
    environment: dict[str, str], tiny_artifact: Path
) -> None:
    """A container's user often has no entry in the list of users."""
    nobody = (
        "import pwd, sys\n"
        "def unknown(number): raise KeyError(number)\n"
        "pwd.getpwuid = unknown\n"
        "from doppler_plugins.cli import main\n"
        "main()\n"
    )
    homeless = {
        name: value
        for name, value in environment.items()
        if name not in ("HOME", "XDG_CACHE_HOME", "DOPPLER_PLUGINS_CACHE_DIR")
    }
    for arguments, code, says in (
        (["embed", tiny_artifact, "text"], 0, b""),
        (["models"], 2, b"DOPPLER_PLUGINS_CACHE_DIR"),
        (["doctor"], 1, b""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", nobody, *map(str, arguments)],
            env=homeless,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
        assert says in done.stderr


def without_seconds(line: str) -> str:
    """A line of the demo on any machine."""
    return re.sub(r"\(\d+\.\d+ s\)", "(s)", line)


def test_the_demo_as_shipped_answers_every_question_in_every_way_as_the_readme_shows(
    environment: dict[str, str],
) -> None:
    done = run(environment, "demo")
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    parts = [part.strip().splitlines() for part in done.stdout.decode().split("\n\n")]
    ways = ["directly", "LangChain", "LlamaIndex"]
    assert [part[0].split(" (")[0] for part in parts[1:4] + parts[5:8] + parts[9:]] == ways * 3
    for _, *answers in parts[1:4]:
        assert len(answers) == 4
        assert "Mars is red" in answers[0]
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8").partition("answers, calls tools")[2]
    shown = re.findall(r"^    (.+)$", readme.partition("## Install")[0], re.MULTILINE)
    printed = [without_seconds(line) for line in done.stdout.decode().splitlines()]
    assert shown.pop() == "..."
    assert len(shown) > 5
    assert [line for line in shown if not any(one.startswith(without_seconds(line)) for one in printed)] == []
    for _, *lines in parts[9:]:
        assert lines[0] == "  Sort: pear lemon apple"
        assert {"    = apple lemon pear", "    = 46 45 44 43 42 41 40 39"} < {*lines}
    for _, *lines in parts[5:8]:
        assert lines[1:3] == ["    Tom lives in Oslo.", "    = Oslo"]
        assert lines[-2:] == ["    add(a=1234, b=567) -> 1801", "    = The result is 1801."]
