"""`--canvas`: canvases are painted in place on a terminal, and nothing of them stays; elsewhere they are lines of talk."""

import fcntl
import os
import struct
import termios
import threading
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.engine.request import Delta
from doppler_plugins.cli import canvas_terminal, program
from doppler_plugins.cli.canvas_terminal import canvases_shown
from doppler_plugins.cli.canvas_view import naming
from tests.canvases import ANSWER, WordTokenizer, forming
from tests.scripted_generator import ScriptedGenerator, interrupt_at_5
from tests.terminal import Terminal

NAME = naming(WordTokenizer())  # type: ignore[arg-type]
TOLD = [
    "canvas 1, step 1 of 8, 31 % accepted, entropy 2.84",
    "canvas 1, step 2 of 8, 50 % accepted, entropy 1.72",
]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch, script: ScriptedGenerator) -> None:
    monkeypatch.setattr(canvas_terminal, "_SECONDS", 0.0)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    script.canvases = forming()


class Tty:
    """A terminal of the system's, with what was written to it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.reading, writing = os.openpty()
        attributes = termios.tcgetattr(writing)
        attributes[1] &= ~termios.OPOST  # what arrives is what was written
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.stream = open(writing, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self.output = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while more := os.read(self.reading, 65536):
                self.output += more
        except OSError:  # nobody writes any more
            return

    def close(self) -> str:
        self.stream.close()
        self._reader.join()
        os.close(self.reading)
        return self.output.decode()


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command line at a terminal; gives its exit code and what was written there."""

    def call(*arguments: object, columns: int = 60, rows: int = 20) -> tuple[int, str]:
        tty = Tty(columns, rows)
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", tty.stream)
            patch.setattr("sys.stderr", tty.stream)
            code = program.run([str(argument) for argument in arguments])
        return code, tty.close()

    return call


def test_at_last_the_answer_stands_there_alone(at_terminal: Any, script: ScriptedGenerator) -> None:
    code, output = at_terminal("generate", "model", "x", "--canvas")
    terminal = Terminal(60)
    terminal.feed(output)
    assert code == 0
    assert terminal.lines == [
        "Hello there.",
        "prompt 1 tokens in 0.25 s; answer 3 tokens in 6 steps (0.5 a step), 3.0/s; stop",
        "",
    ]
    assert script.asked[0].drafts


def test_each_step_is_painted_over_the_one_before(at_terminal: Any) -> None:
    _, output = at_terminal("generate", "model", "x", "--canvas")
    terminal, seen = Terminal(60), []
    for frame in output.split("\x1b[?7h")[:-1]:
        terminal.feed(frame + "\x1b[?7h")
        seen.append(terminal.lines)
    assert len(seen) == 6
    assert seen[0][-2] == "canvas 1, step 1 of 8, 31 % accepted, entropy 2.84"
    assert seen[-1][:2] == ["Owls fly almost without a sound.↵", " Their feathers are soft.<turn|>··"]
    assert seen[-1][2:] == ["▁" * 16, "canvas 1, step 6 of 8, 100 % accepted, entropy 0.00", ""]


def test_no_color_leaves_shades_without_colours(at_terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, coloured = at_terminal("generate", "model", "x", "--canvas")
    monkeypatch.setenv("NO_COLOR", "1")
    _, colourless = at_terminal("generate", "model", "x", "--canvas")
    assert "\x1b[36m" in coloured
    assert "\x1b[36m" not in colourless
    assert "\x1b[33m" not in colourless
    assert "\x1b[2m" in colourless


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 3), (7, 4), (0, 0), (500, 200)])
def test_any_window_will_do(at_terminal: Any, columns: int, rows: int) -> None:
    code, output = at_terminal("generate", "model", "x", "--canvas", columns=columns, rows=rows)
    terminal = Terminal(columns or 80)
    terminal.feed(output)
    assert code == 0
    assert terminal.lines[0] == "Hello there."
    assert len(terminal.lines) == 3


def test_where_nothing_is_a_terminal_each_step_is_a_line_on_stderr(run: Any) -> None:
    done = run("generate", "model", "x", "--canvas")
    assert (done.code, done.out) == (0, "Hello there.\n")
    assert done.err.splitlines()[:2] == TOLD
    assert len(done.err.splitlines()) == 7
    assert "\x1b" not in done.err


def test_a_dumb_terminal_is_none(at_terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    _, output = at_terminal("generate", "model", "x", "--canvas")
    assert "\x1b" not in output
    assert output.splitlines()[:2] == TOLD


def test_an_answer_for_a_file_is_painted_where_talk_goes(
    script: ScriptedGenerator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tty = Tty(60, 20)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", tty.stream)
        assert program.run(["generate", "model", "x", "--canvas"]) == 0
    assert capsys.readouterr().out == "Hello there.\n"
    terminal = Terminal(60)
    terminal.feed(tty.close())
    assert [line[:8] for line in terminal.lines] == ["prompt 1", ""]


def test_an_interrupted_run_leaves_what_had_settled_and_no_canvas(
    at_terminal: Any, script: ScriptedGenerator
) -> None:
    script.canvases, script.before_step = forming(steps=400), interrupt_at_5
    code, output = at_terminal("generate", "model", "x", "--canvas")
    terminal = Terminal(60)
    terminal.feed(output)
    assert (code, terminal.lines) == (130, ["", "interrupted", ""])
    assert script.steps < 400


def test_thoughts_and_text_keep_their_order(at_terminal: Any, script: ScriptedGenerator) -> None:
    script.thoughts = ["Hm, ", "a greeting."]
    _, output = at_terminal("generate", "model", "Hi", "--chat", "--think", "--canvas")
    terminal = Terminal(60)
    terminal.feed(output)
    assert terminal.lines[:2] == ["Hm, a greeting.", "Hello there."]


def test_a_model_without_canvases_says_so(run: Any, script: ScriptedGenerator) -> None:
    script.canvases = []
    done = run("generate", "my-model", "x", "--canvas")
    assert (done.code, done.out) == (2, "")
    assert "my-model makes one token at a time and has no canvas to show" in done.err
    assert script.asked == []


def test_in_json_a_canvas_is_an_object(run: Any) -> None:
    first, *others = run("generate", "model", "x", "--canvas", "--json").lines
    canvas = first["canvas"]
    assert (canvas["step"], canvas["steps"], canvas["done"], len(canvas["ids"])) == (1, 8, False, len(ANSWER))
    assert sum("canvas" in one for one in others) == 5
    assert not any("canvas" in one for one in run("generate", "model", "x", "--json").lines)


def test_steps_are_handed_to_the_request_and_seeds_matter_at_any_temperature(
    run: Any, script: ScriptedGenerator
) -> None:
    done = run("generate", "model", "x", "--steps", 12, "--seed", 3, "--temperature", 0)
    assert (script.asked[0].steps, script.asked[0].drafts) == (12, False)
    assert "warning" not in done.err


texts = st.text(st.sampled_from("ab \n猫"), max_size=30)
happenings = st.lists(st.tuples(texts, texts, st.integers(2, 40)), max_size=6)


@settings(max_examples=30)
@given(happenings)
def test_whatever_comes_and_however_wide_the_window_is_only_text_stays(
    happenings: list[tuple[str, str, int]],
) -> None:
    stream, terminal, columns = StringIO(), Terminal(40), 40

    def flush() -> None:
        terminal.feed(stream.getvalue())
        stream.seek(0)
        stream.truncate()

    def show(delta: Delta) -> None:
        stream.write(delta.reasoning + delta.text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "isatty", lambda: True)
        patch.setattr("sys.stdout", stream)
        patch.setattr(canvas_terminal, "_size", lambda of: (columns, 30))
        terminal.feed("before\n")
        with canvases_shown(show, NAME) as shown:
            for canvas, (text, thought, columns) in zip(forming(ANSWER * 3), happenings, strict=False):
                flush()
                terminal.columns = columns
                shown(Delta("", canvas=canvas))
                flush()
                shown(Delta(text, reasoning=thought))
        flush()
    said = "".join(text + thought for text, thought, _ in happenings)
    left = "\n".join(terminal.lines)
    assert sorted(left.removeprefix("before").replace("\n", "").replace(" ", "")) == sorted(
        said.replace("\n", "").replace(" ", "")
    )
    assert not set(left) & set("▁█…")
