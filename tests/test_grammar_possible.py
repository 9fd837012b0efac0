"""What contradicts itself can't be said: where it may be missing it is left out, and where it has to be it is refused."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Tool, ToolCall
from doppler_core.text.grammar import Grammar, JsonSchema
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.schema import read_schema
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.tool_grammar import tool_grammar
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import Schema, allowed, drawn, open_table, read_reply, text_of

Opened = tuple[Tokenizer, TokenTable]

DEFS: Mapping[str, Any] = {
    "None": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "Endless": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Endless"}}, "required": ["next"]},
    "Tree": {
        "type": "object",
        "properties": {"leaf": {"type": "boolean"}, "broken": {"$ref": "#/$defs/None"}, "next": {"$ref": "#/$defs/Tree"}},
        "required": ["leaf"],
    },
}  # fmt: skip
IMPOSSIBLE: Mapping[str, Any] = {
    "false": False,
    "no values": {"enum": []},
    "types": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "values": {"allOf": [{"enum": ["a", "b"]}, {"enum": ["c"]}]},
    "a value and a type": {"type": "string", "const": 3},
    "a value and another": {"enum": ["a"], "const": "b"},
    "numbers": {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 3}]},
    "multiples": {"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 5},
    "lengths": {"type": "string", "allOf": [{"minLength": 5}, {"maxLength": 3}]},
    "lengths at once": {"type": "string", "minLength": 5, "maxLength": 3},
    "a pattern and a length": {"type": "string", "pattern": "^abc$", "maxLength": 2},
    "a form and a length": {"type": "string", "format": "date", "minLength": 11},
    "items": {"type": "array", "items": False, "minItems": 1},
    "counts": {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 2},
    "places": {"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": []}], "minItems": 2},
    "what has to be in it": {"type": "object", "properties": {"b": {"enum": []}}, "required": ["b"]},
    "what it refers to": {"$ref": "#/$defs/None"},
    "itself without an end": {"$ref": "#/$defs/Endless"},
    "all alternatives": {"anyOf": [{"enum": []}, {"$ref": "#/$defs/None"}, False]},
    "branches": {"oneOf": [{"type": "string", "const": 1}, False]},
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def holds(opened: Opened, schema: Schema, value: object) -> bool:
    """Whether a schema's grammar lets a value through, token by token."""
    tokenizer, table = opened
    now = constraint(table, JsonSchema(schema | {"$defs": DEFS}))
    for token in tokenizer.encode(json.dumps(value, separators=(",", ":")), bare=True):
        if token not in allowed(now):
            return False
        now.accept(token)
    return now.stopped or tokenizer.token_id("<eos>") in allowed(now)


def check_drawn(opened: Opened, schema: Schema) -> None:
    """Whatever a model draws is a value, as JSON and in a call."""
    whole = schema | {"$defs": DEFS}
    Draft202012Validator(whole).validate(json.loads(text_of(opened[0], drawn(*opened, JsonSchema(whole), 1))))
    if schema.get("type") == "object":
        calls: Grammar = tool_grammar([Tool("use", "", whole)], "required", parallel=False)
        (call,) = read_reply(opened[0], drawn(*opened, calls, 1))
        assert isinstance(call, ToolCall)
        Draft202012Validator(whole).validate(call.arguments)


def record(required: list[str], more: object, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


WHOLE = {"type": "integer", "maximum": 99, "minimum": 0}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_property_that_may_be_missing_is(name: str, opened: Opened) -> None:
    for more in (False, True, WHOLE):
        schema = record(["b"], more, a=IMPOSSIBLE[name], b=WHOLE)
        assert holds(opened, schema, {"b": 1})
        assert not holds(opened, schema, {"a": 1, "b": 1})
        assert not holds(opened, schema, {"b": 1, "a": 1}), "nor as a key of nobody's choice"
        assert holds(opened, schema, {"b": 1, "c": 1}) == (more is not False)
        check_drawn(opened, schema)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_property_that_has_to_be_there_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^schema: #.*|^schema: no value fits it") as caught:
        read_schema(record(["a"], False, a=IMPOSSIBLE[name], b=WHOLE) | {"$defs": DEFS})
    assert type(caught.value) is InputError
    with pytest.raises(InputError, match=r"^tool use: parameters: "):
        tool_grammar([Tool("use", "", record(["a"], False, a=IMPOSSIBLE[name]) | {"$defs": DEFS})])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_so_is_an_alternative_a_place_an_item_and_a_key_of_nobodys_choice(name: str, opened: Opened) -> None:
    impossible = IMPOSSIBLE[name]
    check_drawn(opened, either := {"anyOf": [impossible, WHOLE]})
    assert holds(opened, either, 7)
    places = {"type": "array", "prefixItems": [WHOLE, impossible, WHOLE], "items": WHOLE}
    check_drawn(opened, places)
    assert [holds(opened, places, [1] * count) for count in range(4)] == [True, True, False, False]
    check_drawn(opened, items := {"type": "array", "prefixItems": [WHOLE], "items": impossible})
    assert [holds(opened, items, [1] * count) for count in range(3)] == [True, True, False]
    check_drawn(opened, keys := record([], impossible, b=WHOLE))
    assert (holds(opened, keys, {"b": 1}), holds(opened, keys, {"b": 1, "c": 1})) == (True, False)
    with pytest.raises(InputError):
        read_schema({**places, "minItems": 2, "$defs": DEFS})


def test_what_has_to_be_within_what_may_be_missing_takes_that_with_it(opened: Opened) -> None:
    inner = record(["x"], False, x={"enum": []})
    schema = record([], False, a=inner, b=WHOLE, c=record([], False, a=inner))
    assert holds(opened, schema, {"b": 1, "c": {}})
    assert not holds(opened, schema, {"a": {}})
    check_drawn(opened, schema)


def test_what_refers_to_itself_keeps_what_can_be(opened: Opened) -> None:
    schema: Schema = {"$ref": "#/$defs/Tree"}
    assert holds(opened, schema, {"leaf": True, "next": {"leaf": False}})
    assert not holds(opened, schema, {"leaf": True, "broken": 1})


def test_where_nothing_fits_the_first_contradiction_is_told() -> None:
    with pytest.raises(InputError, match="#/properties/a: minLength: 5 is more than maxLength, which is 3"):
        read_schema(record(["a"], False, a=IMPOSSIBLE["lengths at once"]))
    with pytest.raises(InputError, match="schema: no value fits it: its keys contradict each other"):
        read_schema(record(["a"], False, a=IMPOSSIBLE["types"]))
