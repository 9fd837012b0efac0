"""Gemma 4's wire format, in segments: what is prompt, and what the model has to say.

Takes tools, calls and results, gives text with the control tokens written out. The tests hold it to the package's own
renderer, which this script does without so that training needs torch and tokenizers alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from values import Value

QUOTE = '<|"|>'
BEGIN, OPEN, CLOSE = "<bos>", "<|turn>", "<turn|>"
THINK, THOUGHT, THOUGHT_END = "<|think|>", "<|channel>thought\n", "\n<channel|>"
CALL, CALL_END, RESULT, RESULT_END = "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>"
MODEL_TURN = f"{OPEN}model\n"
# Of a segment: "" is what the model reads; the others name what it says, for the measurements.
ROLES = ("", "thought", "name", "arguments", "say", "passage", "copy", "json", "chat")
Segment = tuple[str, str]  # text, role


@dataclass(frozen=True)
class Parameter:
    """A parameter of a tool; `kind` is its JSON type."""

    name: str
    kind: str
    description: str = ""
    choices: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True)
class Tool:
    """A tool as a framework offers it; its parameters in the order of their declaration."""

    name: str
    description: str
    parameters: tuple[Parameter, ...] = ()

    def schema(self) -> dict[str, object]:
        """The same as a chat API takes it."""
        properties = {
            p.name: {"type": p.kind}
            | ({"description": p.description} if p.description else {})
            | ({"enum": list(p.choices)} if p.choices else {})
            for p in self.parameters
        }
        required = [p.name for p in self.parameters if p.required]
        parameters = {"type": "object", "properties": properties} | (
            {"required": required} if required else {}
        )
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def literal(value: Value) -> str:
    """A value in a call or a result."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{QUOTE}{value}{QUOTE}" if isinstance(value, str) else str(value)


def mapping(values: Mapping[str, Value]) -> str:
    return "{" + ",".join(f"{key}:{literal(values[key])}" for key in sorted(values, key=str.lower)) + "}"


def declaration(tool: Tool) -> str:
    """A tool in the system turn."""
    fields = [f"description:{literal(tool.description)}"]
    parts = [_property(p) for p in sorted(tool.parameters, key=lambda p: p.name.lower())]
    required = [literal(p.name) for p in tool.parameters if p.required]
    inside = [f"properties:{{{','.join(parts)}}}"] if parts else []
    inside += [f"required:[{','.join(required)}]"] if required else []
    inside.append(f"type:{literal('OBJECT')}")
    fields.append(f"parameters:{{{','.join(inside)}}}")
    return f"<|tool>declaration:{tool.name}{{{','.join(fields)}}}<tool|>"


def _property(parameter: Parameter) -> str:
    fields = [f"description:{literal(parameter.description)}"] if parameter.description else []
    fields += [f"enum:[{','.join(map(literal, parameter.choices))}]"] if parameter.choices else []
    fields.append(f"type:{literal(parameter.kind.upper())}")
    return f"{parameter.name}:{{{','.join(fields)}}}"


def opening(system: str, tools: Sequence[Tool], thinking: bool = False) -> str:
    """What stands before the first turn of the user."""
    if not (system or tools or thinking):
        return BEGIN
    head = f"{THINK}\n" if thinking else ""
    return f"{BEGIN}{OPEN}system\n{head}{system}{''.join(map(declaration, tools))}{CLOSE}\n"


def user_turn(text: str) -> str:
    return f"{OPEN}user\n{text}{CLOSE}\n"


def call(name: str, arguments: Mapping[str, Value]) -> list[Segment]:
    """One call, as the model says it."""
    return [(f"{CALL}call:", "chat"), (name, "name"), (mapping(arguments) + CALL_END, "arguments")]


def results(answers: Iterable[tuple[str, Mapping[str, Value]]]) -> str:
    """The tools' answers, without the control token that the model's own turn ended with."""
    return "".join(
        f"{RESULT}response:{name}{mapping(values)}{RESULT_END}" for name, values in answers
    ).removeprefix(RESULT)
