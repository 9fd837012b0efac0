"""A schema that a grammar can't hold is refused by key and place; one that it can hold allows what it says and no more."""

import json
from types import MappingProxyType
from typing import Any

import pytest

from doppler_core.errors import InputError
from doppler_core.text.grammar.form import JsonSchema
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.schema import read_schema
from doppler_core.text.grammar.shape import NULL, Anything, Named, Number, OneOf, Record, Text
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import Schema, allowed, open_table, record

Opened = tuple[Tokenizer, TokenTable]

UNSUPPORTED: dict[str, Any] = {
    "not": {"type": "null"},
    "if": {},
    "then": {},
    "else": {},
    "uniqueItems": True,
    "contains": {},
    "minContains": 1,
    "maxContains": 1,
    "propertyNames": {"pattern": "^a"},
    "patternProperties": {"^a": {}},
    "dependentRequired": {"a": ["b"]},
    "dependentSchemas": {"a": {}},
    "unevaluatedProperties": False,
    "unevaluatedItems": False,
    "additionalItems": False,
    "$dynamicRef": "#a",
    "made_up": 1,
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def holds(opened: Opened, schema: Schema, value: Any) -> bool:
    """Whether the grammar of a schema lets the compact JSON of a value through."""
    now = constraint(opened[1], JsonSchema(schema))
    for token in opened[0].encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False), bare=True):
        if token not in allowed(now):
            return False
        now.accept(token)
    return opened[0].token_id("<eos>") in allowed(now)


@pytest.mark.parametrize("key", UNSUPPORTED)
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (lambda inner: inner, "#"),
        (lambda inner: record("a", inner), "#/properties/a"),
        (lambda inner: {"type": "array", "items": record("b", inner)}, "#/items/properties/b"),
        (lambda inner: {"anyOf": [{"type": "null"}, inner]}, "#/anyOf/1"),
        (lambda inner: {"allOf": [{"type": "null"}, inner]}, "#/allOf/1"),
        (lambda inner: {"oneOf": [{"type": "null"}, inner]}, "#/oneOf/1"),
        (lambda inner: {"$ref": "#/$defs/D", "$defs": {"D": inner}}, "#/$defs/D"),
        (lambda inner: {"$ref": "#/$defs/D", "type": "object", "$defs": {"D": inner}}, "#/$defs/D"),
        (lambda inner: {"type": "object", "additionalProperties": inner}, "#/additionalProperties"),
        (lambda inner: {"type": "array", "prefixItems": [inner]}, "#/prefixItems/0"),
    ],
)
def test_a_key_that_a_grammar_cant_hold_is_named_with_its_place(key: str, schema: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read_schema(schema({key: UNSUPPORTED[key]}))
    assert str(caught.value).startswith(f"schema: {path}: {key}: a grammar can't hold this key")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "text"}, "#: type: expected one or more of string, number"),
        ({"type": []}, "#: type: expected one or more"),
        (record("a", 3), "#: properties: expected schemas by name"),
        ({"minLength": -1}, "#: minLength: expected a count, got -1"),
        ({"type": "array", "items": [{}]}, "#: items: expected a schema (for places, write prefixItems)"),
        ({"minimum": 1, "exclusiveMinimum": True}, "#: exclusiveMinimum: expected a number, got true"),
        ({"minLength": 3, "maxLength": 2}, "#: minLength: 3 is more than maxLength, which is 2"),
        ({"anyOf": []}, "#: anyOf: expected a list of schemas"),
        ({"$ref": "#/$defs/Nobody"}, "#: $ref: there is no #/$defs/Nobody"),
        ({"$ref": "https://a.b/c.json"}, "#: $ref: 'https://a.b/c.json' is not within the schema"),
        ({"$ref": "#", "type": "object"}, "#: $ref: # is itself"),
        ({"type": "string", "format": "iban"}, "#: format: 'iban' is unknown"),
        ({"type": "string", "pattern": "a(?=b)"}, "#: pattern: 'a(?=b)' can't be held by a grammar"),
        ({"type": "string", "pattern": "(^a|b)c"}, "#: pattern: '(^a|b)c' can't be held by a grammar"),
        (
            {"type": "string", "pattern": "^abc$", "maxLength": 2},
            "#: pattern: no text matches all that holds at once",
        ),
        (
            {"type": "string", "format": "date", "minLength": 11},
            "#: format: no text matches all that holds at once",
        ),
        ({"type": "number", "multipleOf": 1e-30}, "#: multipleOf: "),
        ({"allOf": [{"items": {}}, {"prefixItems": [{}]}]}, "#: prefixItems: it holds together with items"),
        ({"enum": ["a", "bb"], "maxLength": 1}, "#: maxLength: it stands beside the values of an enum"),
        ({"type": "object", "minProperties": 2}, "#: minProperties: a grammar can't tell that keys differ"),
        (record("a", {}) | {"minProperties": 2}, "#: minProperties: a grammar counts no keys"),
        (
            {"properties": {"a": {}, "b": {}}, "maxProperties": 1},
            "#: maxProperties: a grammar counts no keys",
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": ["string", "null"]}]},
            "#: oneOf: a value may fit both 0 and 1",
        ),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#: oneOf: a value may fit both 0 and 1"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "#: pattern: two of them hold at once"),
        (False, "expected an object, got bool"),
        ([], "expected an object, got list"),
    ],
)
def test_a_schema_that_is_amiss_is_told_where(schema: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_schema(schema)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        record("a", False),
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"allOf": [{"enum": [1, 2]}, {"enum": [3]}]},
        {"type": "string", "enum": [1]},
        {"enum": []},
        {"allOf": [{"const": 1}, {"const": True}]},
        {"type": "array", "prefixItems": [{}, False], "minItems": 2},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3},
        {"type": "integer", "minimum": 0.2, "maximum": 0.8},
        {"type": "number", "minimum": 1, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 10**18},
        record("again", {"$ref": "#"}),
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {"type": "array", "minItems": 1, "items": False},
        {"allOf": [record("a", {"type": "null"}), {"type": "object", "additionalProperties": False}]},
    ],
)
def test_a_schema_that_no_value_fits_is_refused(schema: Schema) -> None:
    with pytest.raises(InputError, match="no value fits it"):
        read_schema(schema)


def test_what_only_says_something_limits_nothing() -> None:
    said = {"title": "T", "description": "d", "default": 1, "examples": [2], "deprecated": True, "x-order": 3}
    assert read_schema(
        {"type": "integer", **said, "$schema": "s", "$id": "i", "$comment": "c"}
    ).root == Number(True)
    assert read_schema({"$defs": {"unused": {"not": {}}}}).root == Anything()


def test_types_are_those_named_or_else_those_that_the_keys_speak_of() -> None:
    assert read_schema({"minLength": 1}).root == Text(1)
    assert read_schema({"type": ["integer", "number"]}).root == Number(False)
    assert read_schema({"type": "boolean", "minimum": 3}).root == OneOf((True, False))
    assert read_schema({"type": "string", "const": "a"}).root == OneOf(("a",))
    assert read_schema({"const": None}).root == NULL
    assert read_schema({"properties": {}}).root == Record()


def test_a_reference_is_read_once_however_often_it_is_made() -> None:
    node = {
        "type": "object",
        "properties": {side: {"$ref": "#/definitions/a~1b%20c"} for side in ("left", "right")},
    }
    found = read_schema({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": node}})
    assert found.root == Named("r0")
    assert found.named == {"r0": Record((("left", Named("r0")), ("right", Named("r0"))))}


@pytest.mark.parametrize(
    ("schema", "fitting", "unfitting"),
    [
        ({"type": "object", "properties": {"a": {}}}, [{}, {"a": [None]}], [{"b": 1}, [], {"a": 1, "b": 2}]),
        ({"type": "object"}, [{}, {"b": {"c": 1.5}}], [None]),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            [{}, {"x": 1, "y z": 2}],
            [{"x": "1"}],
        ),
        (
            {"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
            [{}, {"a": None}, {"a": None, "b": 1}],
            [{"a": 1}, {"b": None}],
        ),
        ({"type": "object", "required": ["z"]}, [{"z": 1}, {"z": []}], [{}]),
        ({"type": "object", "minProperties": 1, "maxProperties": 2}, [{"a": 1}, {"a": 1, "b": 2}], [{}]),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}]},
            [[], [1], [1, None]],
            [[None]],
        ),
        (
            {
                "prefixItems": [{"type": "integer"}],
                "items": {"type": "boolean"},
                "minItems": 2,
                "maxItems": 3,
            },
            [[1, True], [1, True, False]],
            [[1], [1, 2], [1, True, True, True]],
        ),
        ({"type": ["string", "null"], "maxLength": 2}, ["", "ab", None], ["abc", 1]),
        ({"type": "string", "nullable": True, "maxLength": 1}, ["a", None], ["ab"]),
        ({"$ref": "#/$defs/A", "nullable": True, "$defs": {"A": {"type": "integer"}}}, [1, None], ["a"]),
        ({"enum": ["a", "é\n", 1.5, None, {"k": [1]}]}, ["a", "é\n", 1.5, None, {"k": [1]}], ["b", 1, {}]),
        ({"const": {"k": [1, 2], "l": None}}, [{"k": [1, 2], "l": None}], [{"k": [1, 2]}]),
        ({"type": "number", "enum": [1, "1", 2.5]}, [1, 2.5], ["1"]),
        (
            {
                "$ref": "#/$defs/A",
                "required": ["b"],
                "$defs": {"A": {"properties": {"a": {}, "b": {"type": "null"}}}},
            },
            [{"b": None}, {"a": 1, "b": None}],
            [{}, {"a": 1}],
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"minimum": 1}}},
                    {"properties": {"a": {"maximum": 2}, "b": {}}},
                ]
            },
            [{}, {"a": 1, "b": 5}, {"a": 2}],
            [{"a": 0}, {"a": 3}, {"c": 1}],
        ),
        (
            {"properties": {"a": False, "b": {}}, "additionalProperties": True},
            [{}, {"b": 1}, {"c": 1}],
            [{"a": 1}],
        ),
        ({"properties": {"a": {"enum": []}}, "additionalProperties": {}}, [{"c": 1}], [{"a": 1}]),
        (
            {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
            [{}],
        ),
        (
            {"oneOf": [record("cat", {"type": "null"}), record("dog", {"type": "null"})]},
            [{"cat": None}, {"dog": None}],
            [{}, {"cat": None, "dog": None}],
        ),
        ({"allOf": [{"type": "number"}, {"type": ["integer", "string"], "minimum": 3}]}, [3], [2, 3.5, "a"]),
        ({"type": "number"}, [0, -1.5, 1e-7, 2e30], ["1"]),
        ({"type": "number", "minimum": 0, "maximum": 1}, [0, 1, 0.5, 0.333], [-0.1, 1.001, 2]),
        ({"type": "number", "exclusiveMinimum": -2.5, "exclusiveMaximum": 10}, [-2.4, 9.99, 0], [-2.5, 10]),
        ({"type": "integer", "minimum": -3, "exclusiveMaximum": 120}, [-3, 0, 99, 119], [-4, 120, 1.5, 1000]),
        ({"type": "integer", "minimum": 7, "multipleOf": 5}, [10, 1005], [5, 12, -10]),
        ({"type": "number", "multipleOf": 0.25}, [0.25, 1, -2.75], [0.3]),
        ({"type": "integer", "minimum": 2.0, "maximum": 2}, [2], [1, 3]),
        (
            {"anyOf": [{"const": 1}, {"const": True}, {"const": 0.0}, {"const": False}]},
            [1, True, False],
            ["a"],
        ),
        ({"allOf": [{"enum": [0, 1, True]}, {"enum": [1.0, False]}]}, [1], [0, True]),
        (
            {"allOf": [record("a", {"enum": [1, 2]}), record("a", {"enum": [True, 2]})]},
            [{"a": 2}],
            [{"a": 1}],
        ),
        ({"type": "array", "prefixItems": [{}, False, {}]}, [[], [1]], [[1, 2]]),
        ({"type": "string", "maxLength": 2**53}, ["a"], [1]),
        ({"type": "string", "pattern": "b"}, ["b", "abc", "a\nb"], ["a", ""]),
        ({"type": "string", "pattern": "^a|b$"}, ["a", "ax", "xb"], ["xa", "bx"]),
        ({"type": "string", "pattern": "^(a|b)+$", "maxLength": 3}, ["a", "bab"], ["", "abab", "xa"]),
        ({"type": "string", "pattern": r"^[\d|]\|[^\W]$"}, ["1|a", "||_"], ["a|a", "1|-", "\u0661|a"]),
        ({"type": "string", "pattern": "^\\S$"}, ["a", "é"], [" ", "\u2003"]),
        ({"type": "string", "pattern": "^$"}, [""], ["a"]),
        (
            {"type": "string", "pattern": "^\\d{4}", "format": "date"},
            ["2024-02-28"],
            ["2024-02-30", "2023-04-31"],
        ),
        (
            {"pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"},
            ["1", "-1.50", ".5", "+007."],
            ["", "-", ".", "1e3"],
        ),
        ({}, [None, True, 1, "a", [], {}, {"a": [{}]}], []),
    ],
)
def test_a_schema_allows_what_it_says(
    schema: Schema, fitting: list[Any], unfitting: list[Any], opened: Opened
) -> None:
    for value in fitting:
        assert holds(opened, schema, value), value
    for value in unfitting:
        assert not holds(opened, schema, value), value


FITTING = {
    "date": ["2024-12-31", "1999-06-30", "2000-02-28"],
    "time": ["23:59:59Z", "00:00:00.125+05:30"],
    "date-time": ["2024-12-31T23:59:59Z"],
    "duration": ["P3D", "PT1H30M", "P2W", "P1DT2S", "PT5S", "P1Y2M", "P6M"],
    "email": ["a.b@example.org", "o'neil+tag@mail.example.co.uk"],
    "hostname": ["example", "a-b.example.org"],
    "ipv4": ["255.0.10.199"],
    "ipv6": ["2001:db8:0:0:0:0:0:1", "::1", "::", "fe80::1:2", "1:2:3:4:5:6::7"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uri": [
        "https://example.org:8080/a/b?c=d",
        "http://127.0.0.1",
        "https://en.wikipedia.org/wiki/A_(b)#C%20d,e",
        "ftp://ann@files.example.org/",
    ],
}


@pytest.mark.parametrize("name", FITTING)
def test_a_format_allows_texts_of_it(name: str, opened: Opened) -> None:
    for value in FITTING[name]:
        assert holds(opened, {"type": "string", "format": name}, value), value
        assert not holds(opened, {"type": "string", "format": name}, value + " ")


def test_no_whitespace_stands_between_the_parts_of_json(opened: Opened) -> None:
    now = constraint(opened[1], JsonSchema({}))
    for token in opened[0].encode('{"a":[1', bare=True):
        now.accept(token)
    assert not {opened[0].token_id(space) for space in ("▁", "\n", "\n\n")} & set(allowed(now).tolist())


def test_a_schema_of_thousands_of_combinations_is_refused_soon() -> None:
    pair = {"anyOf": [{"minLength": 1}, {"maxLength": 5}]}
    with pytest.raises(InputError, match="combinations"):
        read_schema({"allOf": [pair] * 20})


def test_definitions_that_are_merged_with_each_other_for_ever_come_to_an_end(opened: Opened) -> None:
    again = {"$ref": "#/$defs/Q"}
    schema = {
        "allOf": [{"$ref": "#/$defs/W"}, again],
        "$defs": {
            "W": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/W"}, again]}, "b": {"type": "null"}}},
            "Q": {"properties": {"a": again, "b": {}}},
        },
    }
    assert holds(opened, schema, {"a": {"a": {"b": None}, "b": None}})
    assert not holds(opened, schema, {"a": {"a": {"b": 1}}})


@pytest.mark.parametrize(("length", "fits"), [(100, True), (1000, False), (20_000, False)])
def test_definitions_in_a_row_are_held_as_far_as_the_librarys_stack_goes(
    length: int, fits: bool, opened: Opened
) -> None:
    row = {f"D{at}": {"properties": {"next": {"$ref": f"#/$defs/D{at + 1}"}}} for at in range(length)}
    schema = {"$ref": "#/$defs/D0", "$defs": {**row, f"D{length}": {"type": "null"}}}
    if fits:
        assert holds(opened, schema, {"next": {"next": {}}})
        return
    with pytest.raises(InputError, match=r"more than \d+ (deep|definitions)"):
        constraint(opened[1], JsonSchema(schema))


def test_a_schema_may_be_of_any_mapping_and_is_left_as_it_is() -> None:
    schema = MappingProxyType({"type": "object", "properties": MappingProxyType({"a": {"const": 1}})})
    before = repr(schema)
    read_schema(schema)
    assert repr(schema) == before
