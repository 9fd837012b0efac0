"""The commands that generate, on tiny random models through the whole engine: one answer, however it is asked for."""

import contextlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from doppler_core.settings import EngineSettings
from doppler_plugins.cli import program
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.opening import open_engine
from doppler_plugins.sharing import open_count

GOLDENS = Path(__file__).parent / "goldens"
AS_GEMMA4 = ("--chat-format", "gemma4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma 4 in small, converted with f32 weights."""
    out = tmp_path_factory.mktemp("models") / "tiny"
    convert_checkpoint(
        resolve_checkpoint(GOLDENS / "gemma4", EngineSettings(precision="f32")), EngineSettings(), out
    )
    return out


@pytest.fixture(autouse=True)
def _numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    yield
    assert open_count() == 0


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command line in this process; gives code, stdout, stderr."""

    def call(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


def deltas(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_generate_shows_what_the_engine_makes(run: Any, model: Path) -> None:
    options = ("the star is above", "--temperature", 0, "--max-tokens", 16)
    with open_engine(model, EngineSettings(device="numpy")) as engine:
        expected = engine.generate("the star is above", temperature=0, max_tokens=16)
    *_, last = found = deltas(run("generate", model, *options, "--json")[1])
    assert tuple(number for delta in found for number in delta.get("ids", ())) == expected.ids
    assert "".join(delta["text"] for delta in found) == expected.text
    assert last["usage"].items() < asdict(expected.usage).items(), (
        "what canvases take is not said of this model"
    )
    assert last["finish_reason"] == expected.finish_reason == "length"
    assert run("generate", model, *options)[1] == expected.text + "\n"


def test_a_seed_gives_the_same_text_and_another_another(run: Any, model: Path) -> None:
    options = ("--max-tokens", 12, "--temperature", 1)
    texts = [run("generate", model, "the star", "--seed", seed, *options)[1] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_model_says_whether_there_is_a_choice(run: Any, tmp_path: Path) -> None:
    for samples in (False, True):
        folder = tmp_path / f"samples-{samples}"
        shutil.copytree(GOLDENS / "gemma4", folder)
        config = folder / "generation_config.json"
        said = json.loads(config.read_text()) | {"do_sample": samples, "temperature": 1.0}
        config.write_text(json.dumps(said))
        code, _, err = run("generate", folder, "the star", "--max-tokens", 2, "--seed", 1)
        assert code == 0
        assert ("nothing to choose at temperature 0" in err) == (not samples)


def test_every_token_with_a_logarithm_has_its_text(run: Any, model: Path) -> None:
    options = ("--temperature", 0, "--max-tokens", 8, "--logprobs", 3, "--json")
    found = deltas(run("generate", model, "the star is", *options)[1])
    told = [one for delta in found for one in delta.get("logprobs", ())]
    assert len(told) == 8
    for one in told:
        assert [set(likely) for likely in one["top"]] == [{"id", "logprob", "text"}] * 3
        assert one["text"]
        assert one["top"][0]["text"] == one["text"]  # at temperature 0
    whole = "".join(one["text"] for one in told)
    assert "\ufffd" in whole or whole == "".join(delta["text"] for delta in found)


def test_a_conversation_is_one_prompt_however_it_is_told(run: Any, model: Path) -> None:
    options = (*AS_GEMMA4, "--temperature", 0, "--max-tokens", 6)
    answer = run("generate", model, "Hi", "--chat", "--system", "S", *options)[1]
    assert run("chat", model, "--system", "S", *options, stdin="Hi\n")[1] == answer


def test_a_second_turn_does_not_run_the_first_again(run: Any, model: Path) -> None:
    lines = "the star is above the river\nand the bridge\n"
    code, out, _ = run(
        "chat", model, *AS_GEMMA4, "--json", "--temperature", 0, "--max-tokens", 4, stdin=lines
    )
    assert code == 0
    first, second = deltas(out)
    assert second["usage"]["cached_tokens"] >= first["usage"]["prompt_tokens"]
    assert second["usage"]["prompt_tokens"] > first["usage"]["prompt_tokens"]


def test_a_base_model_says_that_it_holds_no_conversation(run: Any, model: Path) -> None:
    for arguments in (("chat", model), ("generate", model, "Hi", "--chat")):
        code, out, err = run(*arguments, stdin="Hi\n")
        assert (code, out) == (2, "")
        assert "no chat format: it is a base model" in err


def test_what_the_model_can_not_do_is_one_line(run: Any, model: Path, tiny_artifact: Path) -> None:
    for arguments, says in (
        (("generate", tiny_artifact, "x"), "does not generate text"),
        (
            ("generate", model, "x", "--top-p", "2"),
            ": --top-p=2.0: expected 0 (the top token) to 1 (no limit)\n",
        ),
        (("generate", model, "x", "--max-tokens", "-1"), ": --max-tokens=-1: expected 0 or more\n"),
        (("generate", model, "x", "--top-k", "-2"), ": --top-k=-2: expected 0 (no limit) or more\n"),
        (("generate", model, "word " * 500), "truncate"),
        (("embed", model, "x"), "does not embed"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.splitlines()) == 1


def test_bench_generate_runs(run: Any, model: Path) -> None:
    options = ("--prompt-tokens", 40, "--new-tokens", 4, "--requests", 2, "--repeats", 1)
    found = json.loads(run("bench", "generate", model, *options, "--json")[1])
    assert found["prompt_tokens"] <= 40
    assert found["merged_tokens_per_second"]["median"] > 0


def test_a_terminal_gets_prompts_keeps_on_after_ctrl_c_and_ends_with_ctrl_d(model: Path) -> None:
    command = (sys.executable, "-m", "doppler_plugins", "chat", str(model), *AS_GEMMA4, "--max-tokens", "3")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        assert "/help" in _until(ours, "> ")
        # Between a prompt and the wait for a line Python sees no signal: a person presses the key again.
        _until(ours, "Ctrl-D ends", nudge=lambda: process.send_signal(signal.SIGINT))
        os.write(ours, b"the star\n")
        # Before the prompt, which may come in the same breath, the terminal would take the key for itself.
        assert "answer 3 tokens" in _until(ours, "length (--max-tokens)\r\n", "> ")
        assert _pressed_until_it_ends(process, ours, b"\x04") == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _pressed_until_it_ends(process: subprocess.Popen[bytes], terminal: int, key: bytes) -> int:
    """The exit code. A key that comes while the terminal changes its mode for a line is lost: it is pressed again."""
    for _ in range(40):
        os.write(terminal, key)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=0.5)
    raise AssertionError("the program goes on")


def _until(terminal: int, *marks: str, nudge: Callable[[], None] = lambda: None) -> str:
    """What a terminal shows up to the marks, one after the other; `nudge` is called now and every second."""
    shown, begin, nudges = "", time.monotonic(), 0
    in_order = re.compile(".*".join(map(re.escape, marks)), re.DOTALL)
    while not in_order.search(shown):
        waited = time.monotonic() - begin
        assert waited < 60, shown
        if waited >= nudges:
            nudge()
            nudges += 1
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 4096).decode(errors="replace")
            except OSError as error:  # the program is gone
                raise AssertionError(shown) from error
    return shown
