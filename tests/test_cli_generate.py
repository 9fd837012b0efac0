"""The commands that generate: text as it is made on stdout, talk on stderr, a reply that can be stopped."""

import _thread
import io
import json
import os
import time
from typing import Any

import pytest
from scripted_generator import ScriptedGenerator

from doppler_plugins.cli import program


class Done:
    """What a command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ScriptedGenerator:
    made = ScriptedGenerator()
    monkeypatch.setattr("doppler_plugins.opening.open_engine", made.open_engine)
    return made


@pytest.fixture
def run(script: ScriptedGenerator, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give bytes on a stdin that is no terminal."""
    return lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let somebody type lines at a terminal; None is Ctrl-C, and after the last line comes Ctrl-D."""

    def type_(*lines: str | None) -> None:
        left = list(lines)

        def read(prompt: str = "") -> str:
            if not left:
                raise EOFError
            line = left.pop(0)
            if line is None:
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", read)

    return type_


def interrupt_at_5(step: int) -> None:
    """Ctrl-C, once what was said before is certainly shown."""
    if step == 5:
        time.sleep(0.2)
        _thread.interrupt_main()


def test_generate_writes_the_text_alone_to_stdout_and_what_it_took_to_stderr(
    run: Any, script: ScriptedGenerator
) -> None:
    done = run("generate", "model", "Say hello")
    assert (done.code, done.out) == (0, "Hello there.\n")
    assert done.err == "prompt 2 tokens in 0.25 s; answer 3 tokens, 3.0/s; stop\n"
    assert script.requests[0].prompt == "Say hello"


def test_generate_hands_every_option_to_the_request(run: Any, script: ScriptedGenerator) -> None:
    options = "--max-tokens 2 --temperature 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --seed 4 --stop a --stop b"
    done = run(
        "generate",
        "model",
        "x",
        *options.split(),
        "--truncate",
        "--device",
        "numpy",
        "--context-length",
        64,
        "--slots",
        2,
    )
    request = script.requests[0]
    assert (request.max_tokens, request.temperature, request.top_k, request.top_p) == (2, 0.5, 3, 0.9)
    assert (request.min_p, request.seed, request.stop) == (0.1, 4, ("a", "b"))
    assert request.overflow == "truncate_left"
    assert done.err.endswith("length\n")
    assert script.settings is not None
    assert (script.settings.device, script.settings.context_length, script.settings.slots) == ("numpy", 64, 2)


def test_generate_leaves_open_what_nobody_asked_for(run: Any, script: ScriptedGenerator) -> None:
    run("generate", "model", "x")
    request = script.requests[0]
    assert (request.temperature, request.top_k, request.seed, request.max_tokens) == (None, None, None, None)
    assert (request.overflow, request.stop, request.logprobs) == ("error", (), None)


def test_generate_prints_each_piece_as_json_and_at_last_how_it_ended(run: Any) -> None:
    done = run("generate", "model", "x", "--json", "--logprobs", 2)
    *pieces, last = done.lines
    assert [piece["text"] for piece in pieces] == ["Hello", " there", "."]
    assert pieces[0]["ids"] == [7]
    assert pieces[0]["logprobs"] == [{"id": 7, "logprob": -0.5, "top": [[7, -0.5], [7, -0.5]]}]
    assert (last["finish_reason"], last["usage"]["completion_tokens"]) == ("stop", 3)
    assert (last["model"], last["device"]) == ("model", "scripted")
    assert done.err == ""


def test_generate_puts_the_prompt_into_a_conversation_when_told_so(
    run: Any, script: ScriptedGenerator
) -> None:
    run("generate", "model", "Hi", "--chat", "--system", "Be brief.", "--chat-format", "gemma3")
    assert script.requests[0].prompt == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    )
    assert script.requests[0].chat_format == "gemma3"


@pytest.mark.parametrize("arguments", [("-",), ()])
def test_generate_reads_the_whole_of_stdin(
    run: Any, script: ScriptedGenerator, stdin: Any, arguments: tuple[str, ...]
) -> None:
    stdin("two\nlines é \n".encode() + b"\xff")
    assert run("generate", "model", *arguments).code == 0
    assert script.requests[0].prompt == "two\nlines é \n\ufffd"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give a prompt"),
        (("x", "--logprobs", "2"), "--json"),
        (("x", "--system", "y"), "for --chat"),
        (("x", "--chat-format", "gemma3"), "for --chat"),
    ],
)
def test_generate_says_what_was_meant(run: Any, typing: Any, arguments: tuple[str, ...], says: str) -> None:
    typing()
    done = run("generate", "model", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_an_error_of_the_request_is_one_line(run: Any) -> None:
    done = run("generate", "model", "word " * 101)
    assert (done.code, done.out) == (2, "")
    assert "the prompt has 101 tokens and the context 100: shorten it, --truncate, or" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_base_model_has_no_chat_and_says_so_before_the_first_line(
    run: Any, script: ScriptedGenerator, typing: Any
) -> None:
    script.chats = False
    typing("never asked")
    for arguments in (("chat", "model"), ("generate", "model", "x", "--chat")):
        done = run(*arguments)
        assert done.code == 2
        assert done.err == "doppler-plugins: this model has no chat format\n"
    assert script.asked == []


def test_ctrl_c_ends_generate_and_gives_the_request_up(run: Any, script: ScriptedGenerator) -> None:
    script.answers = [["word "] * 10_000]
    script.before_step = interrupt_at_5
    done = run("generate", "model", "x")
    assert done.code == 130
    assert done.err.endswith("interrupted\n")
    assert script.steps < 10_000


def test_what_moves_a_terminals_cursor_is_not_shown_there(
    run: Any, script: ScriptedGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers = [["a\x1b[2J\x07b\r\n\tc\x9bd"]]
    assert run("generate", "model", "x").out == "a\x1b[2J\x07b\r\n\tc\x9bd\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("generate", "model", "x").out == "a[2Jb\n\tcd\n"


def test_a_stdout_that_lacks_a_letter_gets_a_question_mark(
    script: ScriptedGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers = [["tea \u2615", " é"]]
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    assert program.run(["generate", "model", "x"]) == 0
    assert raw.getvalue() == b"tea ? \xe9\n"


def test_a_closed_pipe_gives_the_request_up_and_ends_quietly(
    run: Any, script: ScriptedGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    script.answers = [["word "] * 10_000]
    with os.fdopen(writing, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        os.close(reading)
        assert program.run(["generate", "model", "x"]) == 141
    assert script.steps < 10_000


def test_chat_takes_a_line_for_a_turn_and_remembers(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    script.answers = [["One."], ["Two."]]
    stdin(b"first \n\n  \nsecond")
    done = run("chat", "model", "--system", "Be brief.")
    assert (done.code, done.out, done.err) == (0, "One.\nTwo.\n", "")
    assert [(turn["role"], turn["content"]) for turn in script.asked[1].prompt] == [  # type: ignore[index]
        ("system", "Be brief."),
        ("user", "first"),
        ("assistant", "One."),
        ("user", "second"),
    ]


def test_chat_forgets_when_told_so(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    stdin(b"first\n/reset\n/help\nsecond\n")
    done = run("chat", "model", "--system", "S")
    assert [turn["content"] for turn in script.asked[1].prompt] == ["S", "second"]  # type: ignore[index]
    assert "/reset forgets" in done.err
    assert len(script.asked) == 2


def test_chat_gives_a_json_object_for_each_reply(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    script.answers = [["One", "."], ["Two", "."]]
    stdin(b"a\nb\n")
    done = run("chat", "model", "--json", "--temperature", "0")
    assert [line["text"] for line in done.lines] == ["One.", "Two."]
    assert done.lines[0]["finish_reason"] == "stop"
    assert done.lines[0]["usage"]["completion_tokens"] == 2
    assert script.asked[0].temperature == 0


def test_an_error_in_a_pipe_ends_the_chat(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    stdin(b"word " * 101 + b"\nsecond\n")
    done = run("chat", "model")
    assert done.code == 2
    assert done.err == "doppler-plugins: the prompt has 101 tokens\n"


def test_an_error_at_a_terminal_costs_its_turn_and_not_the_chat(
    run: Any, script: ScriptedGenerator, typing: Any
) -> None:
    typing("word " * 101, "second")
    done = run("chat", "model")
    assert done.code == 0
    assert "the prompt has 101 tokens\nthis turn is forgotten" in done.err
    assert [turn["content"] for turn in script.asked[0].prompt] == ["second"]  # type: ignore[index]


def test_ctrl_c_stops_the_reply_and_not_the_chat(run: Any, script: ScriptedGenerator, typing: Any) -> None:
    script.answers = [["word "] * 10_000, ["Two."]]
    script.before_step = interrupt_at_5
    typing("first", None, "second")
    done = run("chat", "model")
    assert done.code == 0
    assert done.out.endswith("\nTwo.\n")
    assert "cancelled" in done.err
    assert "(Ctrl-D ends)" in done.err
    assert script.cancelled == 1
    first, kept, second = script.asked[1].prompt
    assert (first["content"], second["content"]) == ("first", "second")  # type: ignore[index]
    # What was read before the interruption is what the model is told that it said.
    assert kept["content"] == done.out.splitlines()[0].removeprefix("> ")  # type: ignore[index]
    assert kept["content"].startswith("word word ")  # type: ignore[index]


def test_a_reply_of_nothing_leaves_no_turn_behind(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    script.answers = [[], ["Two."]]
    stdin(b"first\nsecond\n")
    assert run("chat", "model").out == "\nTwo.\n"
    assert [turn["content"] for turn in script.asked[1].prompt] == ["second"]  # type: ignore[index]


def test_bench_generate_measures_one_request_and_several(run: Any, script: ScriptedGenerator) -> None:
    script.answers = [["word "] * 50]
    options = ("--prompt-tokens", 40, "--new-tokens", 6, "--requests", 3, "--repeats", 2)
    found = json.loads(run("bench", "generate", "model", *options, "--json").out)
    assert (found["prompt_tokens"], found["new_tokens"], found["requests"]) == (40, 6, 3)
    assert found["decode_tokens_per_second"] == {"median": 6.0, "each": [6.0, 6.0]}
    assert found["prefill_tokens_per_second"]["median"] == 40 / 0.25
    assert len(found["merged_tokens_per_second"]["each"]) == 2
    assert len(script.requests) == 2 * (1 + 3)
    assert all(request.ignore_eos and request.temperature == 0 for request in script.requests)
    begins = {str(request.prompt).split()[0] for request in script.requests}
    assert len(begins) == len(script.requests), "a prompt that begins like another is not run whole"
    lines = run("bench", "generate", "model", *options).out
    assert "answer of 6 tokens: 6.0 tokens/s (6.0 to 6.0)" in lines


def test_bench_generate_says_what_does_not_fit(run: Any) -> None:
    done = run("bench", "generate", "model", "--prompt-tokens", 80, "--new-tokens", 30)
    assert done.code == 2
    assert "80 prompt tokens and 30 new ones do not fit the context of 100" in done.err
