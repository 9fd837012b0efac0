"""Tool calls as a grammar: takes tools, gives Lark for Gemma 4's own notation, compiled from their schemas.

<|tool_call>call:NAME{key:value,...}<tool_call|>
"""

from collections.abc import Sequence

from doppler_core.errors import InputError
from doppler_core.text.chat.gemma4_marks import TOOL_CALL, TOOL_CALL_END
from doppler_core.text.chat.messages import Tool
from doppler_core.text.grammar.call_notation import CallNotation, literal
from doppler_core.text.grammar.form import Grammar, Lark
from doppler_core.text.grammar.schema import read_schema
from doppler_core.text.grammar.value_rules import ValueRules

CHOICES = ("auto", "none", "required")


def tool_grammar(
    tools: Sequence[Tool], choice: str = "auto", parallel: bool = True, otherwise: Grammar | None = None
) -> Lark:
    """What a model may answer that has tools. After calls comes an end token and nothing else.

    choice: "auto": text, then perhaps calls; "none": text alone; "required": calls alone; or a tool's name: calls of
        that tool alone.
    parallel: any number of calls in a row, else one.
    otherwise: what stands in place of text, and not before calls: "calls or JSON".
    InputError: no tool to call, a choice that is none, or a schema that a grammar can't hold.
    """
    parts = {} if otherwise is None else {"otherwise": otherwise}
    said = "SAID?" if otherwise is None else "@otherwise"
    if choice == "none":
        return Lark(f"start: {said}\n{_SAID}", parts)
    rules = ValueRules(CallNotation())
    named = {tool.name: tool for tool in tools}
    if choice not in CHOICES and choice not in named:
        raise InputError(
            f"tool_choice: {choice!r} is neither {', '.join(CHOICES)} nor a tool: there is {', '.join(named) or 'none'}"
        )
    wanted = list(named.values()) if choice in CHOICES else [named[choice]]
    if not wanted and choice == "required":
        raise InputError("tool_choice: 'required', and there is no tool: give one")
    if not wanted:
        return Lark(f"start: {said}\n{_SAID}", parts)
    call = rules.rule(" | ".join(_call(tool, rules) for tool in wanted))
    calls = f"{call}+" if parallel else call
    if choice != "auto":
        return Lark(f"start: {calls}\n{rules.text()}")
    start = f"SAID? ({calls})?" if otherwise is None else f"{calls} | @otherwise"
    return Lark(f"start: {start}\n{_SAID}\n{rules.text()}", parts)


_SAID = "SAID: /(?s:.+)/"


def _call(tool: Tool, rules: ValueRules) -> str:
    """The name of the rule of a tool's call."""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    shapes = read_schema({"type": "object", **parameters}, f"tool {tool.name}: parameters")
    begin = literal([TOOL_CALL, f"call:{tool.name}"])
    return rules.rule(f"{begin} {rules.of(shapes)} {TOOL_CALL_END.token}")
