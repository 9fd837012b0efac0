"""`chat`: a turn for each line, a reply that can be stopped, a conversation that can be too long."""

from typing import Any

import pytest

from tests.scripted_generator import ScriptedGenerator, interrupt_at_5

HELP = "/reset forgets the conversation, /help says this, /bye ends; Ctrl-C stops a reply, Ctrl-D ends\n"


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
    assert done.err == "the conversation is forgotten\n" + HELP
    assert len(script.asked) == 2


def test_chat_knows_its_commands_and_says_which_are_none(
    run: Any, script: ScriptedGenerator, stdin: Any
) -> None:
    stdin(b"/foo\n/etc/hosts is a file\n/bye\nnever asked\n")
    done = run("chat", "model")
    assert (done.code, done.err) == (0, "no such command: /foo; /help lists them\n")
    assert [turn["content"] for turn in script.asked[0].prompt] == ["/etc/hosts is a file"]  # type: ignore[index]
    stdin(b"/exit\nnever asked\n")
    run("chat", "model")
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "stdin is empty: expected a turn in each line"),
        (b"tea\n\xff\n", "line 2 of stdin: expected UTF-8 text, found byte 0xff at 0"),
    ],
)
def test_chat_takes_no_pipe_that_is_empty_or_no_text(run: Any, stdin: Any, data: bytes, says: str) -> None:
    stdin(data)
    done = run("chat", "model")
    assert done.code == 2
    assert says in done.err
    assert done.out == "Hello there.\n" * data.startswith(b"tea")


def long_talk(script: ScriptedGenerator, stdin: Any) -> None:
    """Four turns of ten words and their replies of ten, for a context of fifty with room for eleven."""
    script.context, script.answers = 50, [["word "] * 10]
    stdin(b"".join(b"%d" % number + b" x" * 9 + b"\n" for number in range(4)))


def test_a_conversation_over_the_context_ends_a_pipe_with_what_to_do(
    run: Any, script: ScriptedGenerator, stdin: Any
) -> None:
    long_talk(script, stdin)
    done = run("chat", "model", "--system", "S", "--max-tokens", 11)
    assert done.code == 2
    assert done.err.startswith("line 3 and what follows it have no reply\n")
    assert (
        "the conversation has 51 tokens and the context 50: /reset forgets it, --truncate drops its"
        in done.err
    )


def test_truncate_drops_the_oldest_turns_in_pairs_and_never_the_systems_text(
    run: Any, script: ScriptedGenerator, stdin: Any
) -> None:
    long_talk(script, stdin)
    done = run("chat", "model", "--system", "S", "--max-tokens", 11, "--truncate")
    assert (done.code, len(done.out.splitlines())) == (0, 4)
    assert done.err.count("the oldest turns are dropped from here on") == 1
    begins = [[turn["content"].split()[0] for turn in request.prompt] for request in script.asked]  # type: ignore[index,union-attr]
    assert begins == [
        ["S", "0"],
        ["S", "0", "word", "1"],
        ["S", "1", "word", "2"],
        ["S", "2", "word", "3"],
    ]


def test_truncate_does_not_help_a_turn_that_is_too_long_alone(
    run: Any, script: ScriptedGenerator, stdin: Any
) -> None:
    stdin(b"first\n" + b"word " * 101)
    done = run("chat", "model", "--truncate")
    assert done.code == 2
    assert "this turn has 101 tokens and the context 100: shorten it" in done.err


def test_a_pipe_is_told_of_a_reply_that_was_cut(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    stdin(b"first\n\nsecond\n")
    done = run("chat", "model", "--max-tokens", 4)
    assert done.err == ""
    stdin(b"first\n\nsecond\n")
    done = run("chat", "model", "--max-tokens", 2)
    assert done.out == "Hello there\n" * 2
    cut = "the reply is cut (--max-tokens)"
    assert done.err == f"line 1: {cut}\nline 3: {cut}\n"
    stdin(b"first\n")
    done = run("chat", "model", "--max-tokens", 2, "--json")
    assert (done.err, done.lines[0]["limit"]) == ("", "max_tokens")


def test_chat_gives_a_json_object_for_each_reply(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    script.answers = [["One", "."], ["Two", "."]]
    stdin(b"a\nb\n")
    done = run("chat", "model", "--json", "--temperature", "0")
    assert [line["text"] for line in done.lines] == ["One.", "Two."]
    assert done.lines[0]["finish_reason"] == "stop"
    assert done.lines[0]["usage"]["completion_tokens"] == 2
    assert (done.lines[0]["model"], done.lines[0]["device"]) == ("model", "scripted")
    assert script.asked[0].temperature == 0


def test_an_error_in_a_pipe_ends_the_chat(run: Any, script: ScriptedGenerator, stdin: Any) -> None:
    stdin(b"\n\n" + b"word " * 101 + b"\nsecond\n")
    done = run("chat", "model")
    assert done.code == 2
    told, error = done.err.splitlines()
    assert told == "line 3 and what follows it have no reply"
    assert (
        "doppler-plugins: this turn has 101 tokens and the context 100: shorten it, or give a larger" in error
    )
    assert len(script.asked) == 0


def test_an_error_at_a_terminal_costs_its_turn_and_not_the_chat(
    run: Any, script: ScriptedGenerator, typing: Any
) -> None:
    typing("word " * 101, "second")
    done = run("chat", "model")
    assert done.code == 0
    assert "this turn has 101 tokens and the context 100" in done.err
    assert "\nthis turn is forgotten; /reset begins anew" in done.err
    assert [turn["content"] for turn in script.asked[0].prompt] == ["second"]  # type: ignore[index]


def test_ctrl_c_stops_the_reply_and_not_the_chat(run: Any, script: ScriptedGenerator, typing: Any) -> None:
    script.context, script.answers = 100_000, [["word "] * 10_000, ["Two."]]
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
