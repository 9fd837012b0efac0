"""`generate`: text as it is made on stdout, talk on stderr."""

import io
import json
import os
from typing import Any

import pytest

from doppler_plugins.cli import program
from tests.scripted_generator import ScriptedGenerator, interrupt_at_5


def test_generate_writes_the_text_alone_to_stdout_and_what_it_took_to_stderr(
    run: Any, script: ScriptedGenerator
) -> None:
    done = run("generate", "model", "Say hello")
    assert (done.code, done.out) == (0, "Hello there.\n")
    assert done.err == "prompt 2 tokens in 0.25 s; answer 3 tokens, 3.0/s; stop\n"
    assert script.requests[0].prompt == "Say hello"


def test_a_chat_model_with_nothing_to_add_to_a_text_says_how_it_would_answer(
    run: Any, script: ScriptedGenerator
) -> None:
    script.answers = [[]]
    hint = "to have it answered, say --chat\n"
    done = run("generate", "model", "x")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith(hint)
    for options in (["--chat"], ["--max-tokens", 0], ["--json"]):
        assert hint not in run("generate", "model", "x", *options).err
    script.chats = False
    assert hint not in run("generate", "model", "x").err


def test_generate_hands_every_option_to_the_request(run: Any, script: ScriptedGenerator) -> None:
    options = "--max-tokens 2 --temperature 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --seed 4 --stop a --stop b"
    options += " --repetition-penalty 1.2 --presence-penalty 0.2 --frequency-penalty 0.3 --ignore-eos"
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
    assert (request.repetition_penalty, request.presence_penalty, request.frequency_penalty) == (
        1.2,
        0.2,
        0.3,
    )
    assert (request.overflow, request.ignore_eos) == ("truncate_left", True)
    assert done.err.endswith("length (--max-tokens)\n")
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
    assert pieces[0]["logprobs"] == [
        {"id": 7, "logprob": -0.5, "top": [{"id": 7, "logprob": -0.5}, {"id": 7, "logprob": -0.5}]}
    ]
    assert (last["finish_reason"], last["usage"]["completion_tokens"]) == ("stop", 3)
    assert {name for name in last["usage"] if "steps" in name or "forward" in name} == set()
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
    stdin("two\r\nlines é \n\n".encode())
    assert run("generate", "model", *arguments).code == 0
    # The last line break is the shell's, as `echo` puts it there; one before it was meant.
    assert script.requests[0].prompt == "two\nlines é \n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "stdin is empty: expected a prompt there, or as an argument"),
        (b"\n", "stdin is empty"),
        (b"tea \xff", "stdin: expected UTF-8 text, found byte 0xff at 4"),
    ],
)
def test_generate_takes_no_stdin_that_is_empty_or_no_text(
    run: Any, script: ScriptedGenerator, stdin: Any, data: bytes, says: str
) -> None:
    stdin(data)
    done = run("generate", "model")
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert script.requests == []


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
        assert "no chat format: it is a base model" in done.err
        assert "give --chat-format (gemma3 or gemma4) if" in done.err
        assert len(done.err.splitlines()) == 1
    assert script.asked == []


def test_a_model_that_embeds_is_named_as_the_user_named_it(run: Any, script: ScriptedGenerator) -> None:
    script.embeds = True
    for arguments in (("generate", "my-model", "x"), ("chat", "my-model")):
        done = run(*arguments)
        assert done.code == 2
        assert "my-model does not generate text: it embeds; `doppler-plugins embed` is for it" in done.err
    script.embeds = False
    assert "`doppler-plugins generate` is for it" in run("embed", "my-model", "x").err


@pytest.mark.parametrize(
    ("own", "options", "warns"),
    [
        (
            0.0,
            "--seed 3 --top-k 5",
            "warning: --top-k, --seed: nothing to choose at temperature 0, which is this",
        ),
        (0.7, "--top-p 0.5 --temperature 0", "warning: --top-p: nothing to choose at temperature 0; give"),
        (0.0, "--min-p 0", "warning: --min-p: "),
        (0.7, "--seed 3", None),
        (0.0, "--seed 3 --temperature 1", None),
        (0.0, "--temperature 0", None),
    ],
)
def test_an_option_that_does_nothing_is_warned_of_once(
    run: Any, script: ScriptedGenerator, stdin: Any, own: float, options: str, warns: str | None
) -> None:
    script.temperature = own
    for arguments in (("generate", "model", "x"), ("chat", "model")):
        stdin(b"one\ntwo\n")
        done = run(*arguments, *options.split())
        assert done.code == 0
        assert done.err.count("warning: ") == (warns is not None)
        assert warns is None or warns in done.err


@pytest.mark.parametrize(
    ("options", "limit", "says"),
    [
        (("--max-tokens", "2"), "max_tokens", "length (--max-tokens)"),
        ((), "context", "length (the context is full)"),
        (("--max-tokens", "50"), "context", "length (the context is full)"),
    ],
)
def test_it_is_told_what_cut_an_answer(
    run: Any, script: ScriptedGenerator, options: tuple[str, ...], limit: str, says: str
) -> None:
    script.context, script.answers = 12, [["word "] * 100]
    assert run("generate", "model", "x", *options).err.endswith(f"; {says}\n")
    assert run("generate", "model", "x", *options, "--json").lines[-1]["limit"] == limit


def test_an_answer_of_nothing_is_not_even_a_line(run: Any) -> None:
    done = run("generate", "model", "x", "--max-tokens", 0)
    assert (done.code, done.out) == (0, "")
    assert "answer 0 tokens" in done.err


def test_the_progress_line_is_gone_before_an_answer_or_an_error(
    run: Any, script: ScriptedGenerator, monkeypatch: pytest.MonkeyPatch, stdin: Any
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    script.progress = 96, 100
    for arguments in (("generate", "model", "x"), ("chat", "model"), ("generate", "model", "x " * 200)):
        stdin(b"x\n")
        err = run(*arguments).err
        assert err.startswith("\r\033[Kexpanding weights  96 %\r\033[K")
        assert err.count("\033[K") == 2


def test_ctrl_c_ends_generate_and_gives_the_request_up(run: Any, script: ScriptedGenerator) -> None:
    script.context, script.answers = 100_000, [["word "] * 10_000]
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
    script.context, script.answers = 100_000, [["word "] * 10_000]
    with os.fdopen(writing, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        os.close(reading)
        assert program.run(["generate", "model", "x"]) == 141
    assert script.steps < 10_000


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


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("generate", "from a terminal only where PROMPT is `-`"),
        ("generate", "generation_config.json says; where that says nothing, the likeliest token"),
        ("generate", "of prompt and answer together"),
        ("generate", "Drop the beginning of a prompt"),
        ("chat", "--repetition-penalty"),
        ("plan", "encode of a model that embeds; prefill (prompts, and several sequences at once) or decode"),
    ],
)
def test_the_help_says_what_is_not_obvious(run: Any, command: str, says: str) -> None:
    assert says in " ".join(run(command, "--help").out.split())
