"""One reply in parts: thoughts, text and calls come apart, and what ends a reply ends it for all of them alike."""

from collections.abc import Sequence

import pytest
from chat_tokenizers import small_tokenizer

from doppler_core.engine.choice import Choice
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.prompts import Prompts
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import Delta, GenerateRequest, GenerateResult
from doppler_core.text.chat import (
    InvalidToolCall,
    Message,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    control_ids,
    format_named,
)
from doppler_core.text.tokenizer import Tokenizer

FORMAT = format_named("gemma4")
THOUGHT = "<|channel>thought\nLet me see.<channel|>"
CALL = '<|tool_call>call:look{at:<|"|>moon<|"|>,n:2}<tool_call|>'


@pytest.fixture(scope="module", params=[True, False], ids=["special", "as any other"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Whether its control tokens are marked as such or not: the chat format knows them by name."""
    return small_tokenizer(tmp_path_factory.mktemp("tokenizer"), FORMAT.marks, special=request.param)


class Reply:
    """A job that is told the tokens of a text, in which the format's marks stand for themselves."""

    def __init__(self, tokenizer: Tokenizer, limit: int = 1000, stops: Sequence[str] = (), one_call: bool = False) -> None:  # fmt: skip
        self.marks = control_ids(FORMAT, tokenizer)
        ends = frozenset(number for number, mark in self.marks.items() if mark in FORMAT.ends)
        assert FORMAT.parser is not None
        reader = ReplyReader(tokenizer, FORMAT.parser(), self.marks)
        self.tokenizer = tokenizer
        self.job = GenerateJob([1], Choice(), Ending(limit, ends, tuple(stops), one_call), None, reader, 0.0)
        self.deltas: list[Delta] = []

    def says(self, text: str) -> GenerateResult | None:
        """Take the text in, token by token; the result where there is one."""
        for token in self.ids(text):
            self.job.accept(token)
            self.deltas += self.job.news()
        return self.job.result() if self.job.done() else None

    def ids(self, text: str) -> list[int]:
        by_text = {mark: number for number, mark in self.marks.items()}
        found: list[int] = []
        while text:
            mark = next((mark for mark in by_text if text.startswith(mark)), None)
            found += [by_text[mark]] if mark else self.tokenizer.encode(text[0], bare=True)
            text = text[len(mark or text[0]) :]
        return found


def test_thoughts_text_and_calls_come_apart_and_each_as_it_comes(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer)
    result = reply.says(THOUGHT + "I look." + CALL + CALL.replace("2", "3") + "<|tool_response>")
    assert result is not None
    assert (result.text, result.reasoning) == ("I look.", "Let me see.")
    assert [(call.name, call.arguments) for call in result.tool_calls] == [
        ("look", {"at": "moon", "n": 2}),
        ("look", {"at": "moon", "n": 3}),
    ]
    assert len({call.id for call in result.tool_calls}) == 2
    assert (result.finish_reason, result.stop) == (
        "tool_calls",
        tokenizer.token_id("<|tool_response>"),
    )
    assert len([delta for delta in reply.deltas if delta.reasoning]) > 3
    assert len([delta for delta in reply.deltas if delta.text]) > 3
    assert "".join(delta.text for delta in reply.deltas) == result.text
    assert "".join(delta.reasoning for delta in reply.deltas) == result.reasoning
    assert tuple(call for delta in reply.deltas for call in delta.tool_calls) == result.tool_calls
    assert tuple(token for delta in reply.deltas for token in delta.ids) == result.ids


def test_tokens_of_thoughts_are_counted_apart(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer)
    result = reply.says(THOUGHT + "Yes.<turn|>")
    assert result is not None
    assert result.usage.completion_tokens == len(result.ids) == len(reply.ids(THOUGHT + "Yes."))
    # All that opens the thought is of it; what closes it may be told with the answer.
    assert 0 <= len(reply.ids(THOUGHT)) - result.usage.reasoning_tokens <= 1
    plain = Reply(tokenizer).says("Yes.<turn|>")
    assert plain is not None
    assert plain.usage.reasoning_tokens == 0


def test_a_turn_without_a_whole_call_ends_as_any_other(tokenizer: Tokenizer) -> None:
    for text, calls in (("Yes.", 0), ("<|tool_call>call:look{at<tool_call|>", 1)):
        result = Reply(tokenizer).says(text + "<turn|>")
        assert result is not None
        assert (result.finish_reason, result.tool_calls, len(result.invalid_tool_calls)) == (
            "stop",
            (),
            calls,
        )


def test_a_call_that_is_cut_off_is_told_as_invalid_and_never_as_a_call(tokenizer: Tokenizer) -> None:
    whole = "I pay." + '<|tool_call>call:pay{to:<|"|>Bob<|"|>,amount:1000}<tool_call|>'
    count = len(Reply(tokenizer).ids(whole))
    for limit in range(7, count):
        reply = Reply(tokenizer, limit=limit)
        result = reply.says(whole)
        assert result is not None
        assert (result.text, result.tool_calls, result.finish_reason) == ("I pay.", (), "length")
        (call,) = result.invalid_tool_calls
        assert isinstance(call, InvalidToolCall)
        assert reply.deltas[-1].tool_calls == (call,)


def test_a_call_that_is_whole_at_the_limit_is_a_call_of_a_reply_that_was_cut(tokenizer: Tokenizer) -> None:
    result = Reply(tokenizer, limit=len(Reply(tokenizer).ids(CALL))).says(CALL)
    assert result is not None
    assert (len(result.tool_calls), result.finish_reason, result.stop) == (1, "length", None)


def test_a_reply_that_is_given_up_within_a_call_holds_none(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer)
    reply.says("Wait." + CALL[:30])
    reply.job.cancel()
    result = reply.job.result()
    assert (result.text, result.tool_calls, result.finish_reason) == ("Wait.", (), "cancelled")
    assert len(result.invalid_tool_calls) == 1


def test_stop_strings_are_looked_for_in_the_answers_text_alone(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer, stops=("moon", "see", "END"))
    result = reply.says(THOUGHT + "ok" + CALL + "<turn|>")
    assert result is not None
    assert (result.text, result.reasoning, result.finish_reason) == ("ok", "Let me see.", "tool_calls")
    stopped = Reply(tokenizer, stops=("moon",)).says(THOUGHT + "The moon is")
    assert stopped is not None
    assert (stopped.text, stopped.finish_reason, stopped.stop) == ("The ", "stop", "moon")


def test_a_stop_string_does_not_reach_across_a_call(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer, stops=("ab",))
    result = reply.says("a" + CALL + "b<turn|>")
    assert result is not None
    assert (result.text, len(result.tool_calls)) == ("ab", 1)
    called = next(index for index, delta in enumerate(reply.deltas) if delta.tool_calls)
    assert "".join(delta.text for delta in reply.deltas[: called + 1]) == "a"


def test_one_call_ends_the_turn_where_no_more_are_wanted(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer, one_call=True)
    result = reply.says(CALL + CALL)
    assert result is not None
    assert (len(result.tool_calls), result.finish_reason, result.stop) == (1, "tool_calls", None)
    assert list(result.ids) == reply.ids(CALL)
    last = Reply(tokenizer, one_call=True, limit=len(reply.ids(CALL))).says(CALL)
    assert last is not None
    assert last.finish_reason == "tool_calls"


def test_half_a_character_before_a_control_token_is_one_mark_of_loss(tokenizer: Tokenizer) -> None:
    reply = Reply(tokenizer)
    half = tokenizer.encode("é", bare=True)[:1]
    for token in half:
        reply.job.accept(token)
    result = reply.says(CALL + "<turn|>")
    assert result is not None
    assert (result.text, len(result.tool_calls)) == ("�", 1)


def test_a_reply_goes_on_with_the_thought_that_its_prompt_has_begun(tokenizer: Tokenizer) -> None:
    """After a tool's result the prompt itself opens the thought."""
    turns = (
        Message("user", (Text("Where is it?"),)),
        Message("assistant", (ToolCall("look", {"at": "moon"}, "1"),)),
        Message("tool", (ToolResult("there", "look", "1"),)),
    )
    prompts = Prompts(tokenizer, FORMAT)
    tools = (Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}),)
    for thinking, expected in ((True, [Reasoning("T"), Text("A")]), (False, [Text("T"), Text("A")])):
        prompt = prompts.of(GenerateRequest(turns, tools=tools, thinking=thinking))
        closes = tokenizer.token_id("<channel|>")
        assert closes is not None
        found = [part for token in (*tokenizer.encode("T", bare=True), closes, *tokenizer.encode("A", bare=True)) for part in prompt.reader.push(token)]  # fmt: skip
        assert [*found, *prompt.reader.finish(cut=False)] == expected


def test_what_a_text_prompt_is_answered_stays_as_it_is(tokenizer: Tokenizer) -> None:
    """Control tokens have no text, and what looks like a call is text."""
    ids = Reply(tokenizer).ids(THOUGHT + "I look." + CALL)
    job = GenerateJob([1], Choice(), Ending(len(ids)), None, ReplyReader(tokenizer), 0.0)
    for token in ids:
        job.accept(token)
    result = job.result()
    assert "call:look{at:" in result.text
    assert (result.reasoning, result.tool_calls, result.finish_reason) == ("", (), "length")
    assert not any(delta.tool_calls or delta.reasoning for delta in job.news())
