"""What a model says that does no more than it must: for suites that force calls and schemas, and forbid them.

Takes a request; gives Gemma 4's wire format. It thinks where it may; without a demand it counts its messages.
"""

import json

from doppler_core.engine.request import GenerateRequest
from doppler_core.text.chat import read_messages, read_tools
from doppler_core.text.chat.gemma4 import GEMMA4
from doppler_core.text.grammar import JsonSchema
from tests.adapters.obedient import call, sample


def oblige(request: GenerateRequest) -> str:
    """The reply to a request. What Gemma 4 has no form for is an error, as it is with a model."""
    tools = read_tools(request.tools)
    if not isinstance(request.prompt, str):
        GEMMA4.render(read_messages(request.prompt), tools, request.thinking)  # type: ignore[arg-type]
    thought = "<|channel>thought\nLet me see.<channel|>" if request.thinking else ""
    if tools and request.tool_choice not in ("auto", "none"):
        named = next((tool for tool in tools if tool.name == request.tool_choice), tools[0])
        made = call(named.name, sample(named.parameters, {}))
        return thought + made * (2 if request.parallel_tool_calls else 1)
    if isinstance(request.grammar, JsonSchema):
        return thought + json.dumps(sample(request.grammar.schema, {}))
    return f"{thought}I was told {1 if isinstance(request.prompt, str) else len(request.prompt)} messages."
