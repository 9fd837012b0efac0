"""`with_structured_output`: a model whose answer is data.

Takes a model and what describes the data; gives a runnable that ends with the user's class, or says why it can't.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, get_args

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import BaseGenerationOutputParser, JsonOutputParser
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableMap,
    RunnablePassthrough,
    RunnablePick,
)

from doppler_core import errors
from doppler_core.errors import InputError
from doppler_plugins.adapters.json_answers import json_value
from doppler_plugins.langchain.errors import OutputError
from doppler_plugins.langchain.schemas import (
    Described,
    as_described,
    as_function,
    check_described,
    is_pydantic,
    json_schema,
    schema_name,
)

Method = Literal["json_schema", "function_calling", "json_mode"]


def structured(
    model: BaseChatModel,
    described: Described | None,
    method: Method,
    include_raw: bool,
    strict: bool | None,
    bound: Mapping[str, Any],
) -> Runnable[Any, Any]:
    """`model` with its answer held to `described` and read.

    Data is a pydantic object where a pydantic class describes it, else a dict. What does not fit raises
    OutputError, or is `parsing_error` with include_raw; nothing is repaired. bound: what the call says beside.
    """
    if method not in get_args(Method):
        raise InputError(f"method={method!r}: expected one of {', '.join(get_args(Method))}")
    if described is None and method != "json_mode":
        raise InputError(f"method={method!r} needs a schema: a pydantic class, a TypedDict or a JSON schema")
    if described is not None:
        check_described(described)
    binding = {
        **_binding(described, method, strict),
        **bound,
        "ls_structured_output_format": {
            "kwargs": {"method": method, "strict": strict},
            "schema": {"type": "object"} if described is None else described,
        },
    }
    held = model.bind(**binding)
    parser = _parser(described, method)
    if not include_raw:
        return held | parser
    told = RunnablePassthrough.assign(
        parsed=RunnablePick("told") | itemgetter(0), parsing_error=RunnablePick("told") | itemgetter(1)
    )
    read = RunnablePassthrough.assign(told=RunnablePick("raw") | _told(parser)) | told
    return RunnableMap(raw=held) | read | RunnablePick(["raw", "parsed", "parsing_error"])


def _told(parser: Runnable[Any, Any]) -> Runnable[Any, tuple[Any, Exception | None]]:
    """What is read of a message, or None, and why there is nothing. Of a stream it is read at the end: parts of data don't
    add up as those of a message do."""

    def read(message: Any, config: RunnableConfig) -> tuple[Any, Exception | None]:
        try:
            return parser.invoke(message, config), None
        except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
            return None, error

    return RunnableLambda(read)


def _binding(described: Described | None, method: Method, strict: bool | None) -> dict[str, Any]:
    if described is None:
        return {"response_format": {"type": "json_object"}}
    if method == "function_calling":
        tool = as_function(described)
        return {
            "tools": [tool],
            "tool_choice": tool["function"]["name"],
            "parallel_tool_calls": False,
        }
    envelope = {"name": schema_name(described), "schema": json_schema(described), "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": envelope}}


def _parser(described: Described | None, method: Method) -> Runnable[Any, Any]:
    if method == "function_calling":
        return CallParser(described=described)
    return TextParser(described=described) if is_pydantic(described) else StreamedJson()


class CallParser(BaseGenerationOutputParser[Any]):
    """The arguments of an answer's one call, as what describes them."""

    described: Any = None

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """OutputError where there is no call that can be read."""
        message = _message(result)
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if not calls:
            raise OutputError(_no_call(message), llm_output=str(message.content))
        return as_described(calls[0]["args"], self.described)


class TextParser(BaseGenerationOutputParser[Any]):
    """The JSON of an answer's text, as what describes it."""

    described: Any = None

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """OutputError where it is not JSON, or does not fit."""
        return as_described(_value([_message(result)]), self.described)


class StreamedJson(JsonOutputParser):
    """The JSON of an answer's text, as it comes where it is streamed; the end of it has to be whole."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Partial: as far as it goes. Whole: OutputError where it is not JSON."""
        return super().parse_result(result, partial=True) if partial else _value([_message(result)])

    def _transform(self, input: Iterator[str | BaseMessage]) -> Iterator[Any]:
        kept: list[str | BaseMessage] = []
        yield from super()._transform(_keeping(input, kept))
        _value(kept)

    async def _atransform(self, input: AsyncIterator[str | BaseMessage]) -> AsyncIterator[Any]:
        kept: list[str | BaseMessage] = []
        async for value in super()._atransform(_akeeping(input, kept)):
            yield value
        _value(kept)


def _keeping(parts: Iterator[Any], kept: list[Any]) -> Iterator[Any]:
    for part in parts:
        kept.append(part)
        yield part


async def _akeeping(parts: AsyncIterator[Any], kept: list[Any]) -> AsyncIterator[Any]:
    async for part in parts:
        kept.append(part)
        yield part


def _message(result: list[Generation]) -> BaseMessage:
    generation = result[0]
    return generation.message if isinstance(generation, ChatGeneration) else AIMessage(generation.text)


def _value(parts: Sequence[str | BaseMessage]) -> Any:
    """The JSON value of an answer in one part or many."""
    text = "".join(part if isinstance(part, str) else part.text for part in parts)
    told = [part.response_metadata for part in parts if isinstance(part, BaseMessage)]
    ended = {name: value for one in told for name, value in one.items()}
    try:
        return json_value(text, ended.get("finish_reason"), ended.get("stop_sequence"))
    except errors.OutputError as error:
        raise OutputError(str(error), llm_output=text) from error


def _no_call(message: BaseMessage) -> str:
    invalid = message.additional_kwargs.get("invalid_tool_calls")
    if invalid:
        return f"the answer's call can't be read: {invalid[0]['error']}: {invalid[0]['text']!r}"
    return f"the answer has no call: {message.text!r}"
