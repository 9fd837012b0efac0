"""Tools and the choice among them, as users of the frameworks say them: takes that, gives what a request has.

A tool keeps its name: frameworks find the tool of a call by it. Where the name is ours alone, it may be another.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat import read_tools

_WORDS = {"auto": "auto", "none": "none", "any": "required", "required": "required"}
_ANSWERS = {None: "auto", True: "required", False: "none"}


def tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of tools in OpenAI's form. InputError for a tool that no model could be offered, its name included."""
    return [tool.name for tool in read_tools(tools)]


def chosen_tool(choice: Any, names: Sequence[str], required: bool = False) -> str:
    """`tool_choice` as a request has it: "auto", "none", "required", or a tool's name.

    choice: None, True, False, these words, "any", a name, or a mapping of OpenAI's or Anthropic's for one of them.
    required: a call has to come, whichever. InputError, with all that is possible, for anything else, for the name of no
    tool, and for a demand where there are no tools.
    """
    said = _said(choice)
    if said not in names and said not in _WORDS:  # a tool may have the name of a word, and comes before it
        raise InputError(
            f"tool_choice={choice!r}: expected auto, none, any, required or the name of a tool: {', '.join(names) or 'none'}"
        )
    chosen = said if said in names else _WORDS[said]
    if required and chosen == "none":
        raise InputError(f"a call is required and tool_choice={choice!r} forbids it: give one of the two")
    chosen = "required" if required and chosen == "auto" else chosen
    if chosen == "required" and not names:
        raise InputError("a call is required and there are no tools: give at least one")
    return chosen if names else "auto"  # without tools there is nothing to be forbidden


def _said(choice: Any) -> str:
    if choice is None or isinstance(choice, bool):
        return _ANSWERS[choice]
    if isinstance(choice, Mapping):
        named = choice.get("function", choice)
        choice = (named.get("name") if isinstance(named, Mapping) else None) or choice.get("type")
    return choice if isinstance(choice, str) else ""
