"""However an answer is cut into deltas, its last response is the whole one, and it comes back as it was said."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage

from doppler_core.engine.request import Delta, GenerateResult, Timings, TokenLogprob, Usage
from doppler_core.text.chat import InvalidToolCall, Reasoning, Text, ToolCall
from doppler_plugins.adapters.generating import whole
from doppler_plugins.llama_index.messages import read_chat
from doppler_plugins.llama_index.responses import Growing

USAGE = Usage(7, 2, 5, 1)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ToolCall, st.sampled_from(["f", "g"]), st.dictionaries(st.text(max_size=5), values, max_size=3)
)
deltas = st.lists(
    st.builds(lambda text: Delta(text, (1,), (TokenLogprob(1, -0.5),)), st.text(max_size=6))
    | st.builds(lambda text: Delta("", (1,), reasoning=text), st.text(max_size=6))
    | st.builds(lambda call: Delta("", (1,), tool_calls=(call,)), calls)
    | st.just(Delta("", (1,), tool_calls=(InvalidToolCall(None, "call:", "cut off"),))),
    max_size=8,
)


def numbered(found: list[Delta]) -> list[Delta]:
    """The deltas, each call with an id of its own as a parser gives it, and the last one that every answer has."""
    made = []
    for index, delta in enumerate(found):
        parts = tuple(
            ToolCall(one.name, one.arguments, f"call_{index}") if isinstance(one, ToolCall) else one
            for one in delta.tool_calls
        )
        made.append(Delta(delta.text, delta.ids, delta.logprobs, reasoning=delta.reasoning, tool_calls=parts))
    return [*made, Delta("", finish_reason="stop", usage=USAGE, timings=Timings())]


def result_of(found: list[Delta]) -> GenerateResult:
    """What the engine gives as the whole of these deltas."""
    parts = [one for delta in found for one in delta.tool_calls]
    return GenerateResult(
        text="".join(delta.text for delta in found),
        ids=tuple(number for delta in found for number in delta.ids),
        finish_reason="stop",
        stop=None,
        usage=USAGE,
        timings=Timings(),
        logprobs=tuple(one for delta in found for one in delta.logprobs),
        reasoning="".join(delta.reasoning for delta in found),
        tool_calls=tuple(one for one in parts if isinstance(one, ToolCall)),
        invalid_tool_calls=tuple(one for one in parts if isinstance(one, InvalidToolCall)),
    )


@given(deltas)
def test_the_last_response_of_a_stream_is_the_whole_one(found: list[Delta]) -> None:
    found = numbered(found)
    growing = Growing("m")
    responses = [growing.chat(delta) for delta in found]
    last, entire = responses[-1], Growing("m", streamed=False).chat(whole(result_of(found)))
    assert last.message == entire.message
    assert (last.raw, last.logprobs, last.additional_kwargs) == (
        entire.raw,
        entire.logprobs,
        entire.additional_kwargs,
    )
    said = ""
    for response in responses:
        said += response.delta or ""
        assert (response.message.content or "") == said


@given(deltas)
def test_what_was_said_is_told_again_as_it_was(found: list[Delta]) -> None:
    result = result_of(numbered(found))
    message = Growing("m").chat(whole(result)).message
    parts = read_chat([ChatMessage.model_validate_json(message.model_dump_json())])[0].parts
    expected: list[Any] = [Reasoning(result.reasoning)] if result.reasoning else []
    expected += [Text(result.text)] if result.text or not result.tool_calls else []
    assert parts == (*expected, *result.tool_calls)
