"""Tools as chat APIs and frameworks write them: takes mappings, gives Tools. It knows no chat format."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import json_object
from doppler_core.text.chat.messages import Tool
from doppler_core.text.tokenizer import well_formed

# What stands bare in a call must not look like anything else of it.
_NAME = re.compile(r"[\w.:/-]{1,128}")
_NO_NAME = re.compile(r"[^\w.:/-]+")
_ENVELOPE, _SCHEMA = ("type", "function"), ("parameters", "input_schema")
_KINDS = (None, "function", "custom")
_SAYS_NOTHING_TO_A_MODEL = ("strict", "type", "cache_control")


def read_tools(tools: Iterable[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Check the tools that are offered, each as a Tool, in OpenAI's envelope {"type": "function", "function": {...}},
    bare as {"name", "description", "parameters"}, or as Anthropic has it, with `input_schema`.

    InputError names the tool and what is wrong with it: a name that a call can't hold or that two have, parameters that
    are no JSON schema of an object.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise InputError(f"tools: expected a list of tools, got {type(tools).__name__}")
    found: dict[str, Tool] = {}
    for index, one in enumerate(tools):
        tool = _tool(one, f"tool {index}")
        if tool.name in found:
            raise InputError(f"tool {index}: a tool before it has the name {tool.name}, too: rename one")
        found[tool.name] = tool
    return tuple(found.values())


def check_name(name: object, where: str) -> str:
    """The name of a tool; InputError where a call can't hold it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{where}: name is {str(name)[:100]!r}: expected 1 to 128 letters, digits or . _ : / -, as a call writes it "
            "without quotes: rename it"
        )
    return well_formed(name)


def name_for(said: str) -> str:
    """A name that a call can hold, as near to `said` as can be; an empty one where nothing of that is left."""
    return _NO_NAME.sub("_", well_formed(said)).strip("_")[:128]


def _tool(tool: object, where: str) -> Tool:
    if isinstance(tool, Tool):
        return _checked(tool.name, tool.description, tool.parameters, where)
    if not isinstance(tool, Mapping):
        raise InputError(f"{where}: expected a Tool or a mapping, got {type(tool).__name__}")
    body = tool.get("function", tool)
    if not isinstance(body, Mapping):
        raise InputError(
            f"{where}: function is {type(body).__name__}: expected name, description, parameters"
        )
    if unread := [
        str(key) for key, value in tool.items() if body is not tool and key not in _ENVELOPE and value
    ]:
        raise InputError(f"{where}: {', '.join(unread)}: expected type and function alone; take it out")
    if tool.get("type", "function") not in _KINDS:
        raise InputError(
            f"{where}: type is {tool['type']!r}: expected 'function': a model calls no tools of a service here"
        )
    given = [key for key in _SCHEMA if body.get(key) is not None]
    known = ("name", "description", *given, *_SAYS_NOTHING_TO_A_MODEL)
    if unread := [str(key) for key, value in body.items() if key not in known and value]:
        raise InputError(
            f"{where}: {', '.join(unread)}: expected name, description and parameters; take it out"
        )
    if len(given) > 1:
        raise InputError(f"{where}: both parameters and input_schema: take one out")
    return _checked(body.get("name"), body.get("description"), body[given[0]] if given else {}, where)


def _checked(name: object, description: object, parameters: object, where: str) -> Tool:
    name = check_name(name, where)
    where = f"{where} ({name})"
    if not isinstance(description, str | None):
        raise InputError(f"{where}: description is {type(description).__name__}: expected a str")
    schema = json_object(parameters, f"{where}: parameters")
    if schema.get("type", "object") != "object":
        raise InputError(
            f"{where}: parameters: type is {schema['type']!r}: expected the schema of an object, whose properties are the "
            "tool's parameters"
        )
    return Tool(name, well_formed(description or ""), schema)
