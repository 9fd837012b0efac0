"""Shapes as a JSON schema that llguidance reads: takes shapes, gives the schema in the few keys that it needs."""

from typing import Any

from doppler_core.text.grammar.shape import (
    Anything,
    Either,
    List,
    Named,
    Number,
    OneOf,
    Record,
    Shape,
    Shapes,
    Text,
)


def json_form(shapes: Shapes) -> dict[str, Any]:
    """The schema of a root and all that it names."""
    form: dict[str, Any] = _form(shapes.root)
    named = {name: _form(shape) for name, shape in shapes.named.items()}
    return form | ({"$defs": named} if named else {})


def _form(shape: Shape | None) -> Any:
    match shape:
        case None:
            return False
        case Anything():
            return {}
        case Named(name):
            return {"$ref": f"#/$defs/{name}"}
        case Either(shapes):
            return {"anyOf": [_form(one) for one in shapes]}
        case OneOf(values):
            return {"enum": list(values)}
        case Number():
            return number_form(shape)
        case Text(least, most, patterns):
            matched = [{"pattern": f"^(?:{pattern})$"} for pattern in patterns]
            form = {"type": "string"} | _counts("Length", least, most)
            return (
                form
                | ({"allOf": matched} if len(matched) > 1 else {})
                | (matched[0] if len(matched) == 1 else {})
            )
        case List(first, rest, least, most):
            form = {"type": "array", "items": _form(rest)} | _counts("Items", least, most)
            return form | ({"prefixItems": [_form(one) for one in first]} if first else {})
        case Record(keys, required, rest, least, most):
            return {
                "type": "object",
                "properties": {key: _form(one) for key, one in keys},
                "required": [key for key, _ in keys if key in required],
                "additionalProperties": _form(rest),
            } | _counts("Properties", least, most)


def number_form(number: Number) -> dict[str, Any]:
    """The schema of a number."""
    return {"type": "integer" if number.whole else "number"} | dict(number.limits)


def _counts(of: str, least: int, most: int | None) -> dict[str, int]:
    return ({f"min{of}": least} if least else {}) | ({} if most is None else {f"max{of}": most})
