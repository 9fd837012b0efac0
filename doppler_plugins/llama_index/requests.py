"""What a user of DopplerLLM asked, as a request: takes the words of the class and of a call, gives a GenerateRequest.

Nothing is opened. What a model can't do is for the engine to say.
"""

from collections.abc import Mapping
from typing import Any

from doppler_core.engine.request import Capabilities, GenerateRequest
from doppler_core.text.chat import Message, Text, format_named
from doppler_plugins.adapters.generation_words import GenerationWords, request_of
from doppler_plugins.adapters.tools import chosen_tool, tool_names
from doppler_plugins.llama_index.tools import tool_mappings

Prompt = str | tuple[Message, ...]

_TOOL_WORDS = ("tools", "tool_choice", "parallel_tool_calls")
_BESIDE = ("grammar", *_TOOL_WORDS)


def chat_request(words: GenerationWords, prompt: Prompt, call: Mapping[str, Any]) -> GenerateRequest:
    """The request of a conversation.

    call: the words of `request_of`; `grammar`; and `tools` (LlamaIndex's, or mappings as chat APIs write them),
    `tool_choice` and `parallel_tool_calls`.
    """
    said = {name: value for name, value in call.items() if name not in _TOOL_WORDS}
    return text_request(words, prompt, said, **_tool_fields(call))


def text_request(
    words: GenerationWords, prompt: Prompt, call: Mapping[str, Any], **fields: Any
) -> GenerateRequest:
    """The request of a text that goes on: `chat_request` without tools."""
    said = dict(call)
    grammar = said.pop("grammar", None)
    return request_of(words, prompt, said, _BESIDE, grammar=grammar, **fields)


def completion_prompt(text: str, can: Capabilities, words: GenerationWords) -> Prompt:
    """What `complete` makes of a text: a turn of the user, for a model that holds conversations."""
    return (Message("user", (Text(text),)),) if is_chat(can, words) else text


def is_chat(can: Capabilities, words: GenerationWords) -> bool:
    """Whether the model holds conversations, perhaps in a chat format that the words name for it."""
    return can.chat or words.chat_format is not None


def calls_tools(can: Capabilities, words: GenerationWords) -> bool:
    """Whether it calls tools in the chat format that it is used with."""
    return can.tools if words.chat_format is None else format_named(words.chat_format).tools


def _tool_fields(call: Mapping[str, Any]) -> dict[str, Any]:
    tools = tool_mappings(call.get("tools") or ())
    parallel = call.get("parallel_tool_calls")
    return {
        "tools": tuple(tools),
        "tool_choice": chosen_tool(call.get("tool_choice"), tool_names(tools)),
        "parallel_tool_calls": True if parallel is None else parallel,
    }
