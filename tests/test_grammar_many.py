"""Schemas of thousands of parts, however they are written: as JSON and in a tool's call, all can be said and no other."""

import json
import time
from collections.abc import Mapping

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
from tests.grammars import Schema, allowed, drawn, open_table, read_reply, record, text_of

Opened = tuple[Tokenizer, TokenTable]

WORDS = [f"value {number}" for number in range(3000)]
CONSTS = [{"const": word} for word in WORDS]
TYPED = [{"const": word, "type": "string"} for word in WORDS]
MANY: Mapping[str, Schema] = {
    "texts of an enum": {"enum": WORDS},
    "numbers of an enum": {"enum": [*range(3000)]},
    "values of an enum": {"enum": [*range(3000), None, True, [1, 2], {"a": "b"}]},
    "texts": {"anyOf": CONSTS},
    "texts with their type": {"anyOf": TYPED},
    "texts beside a type": {"type": "string", "anyOf": CONSTS},
    "texts, one of which it is": {"oneOf": TYPED},
    "texts, one of which it is, beside a type": {"type": "string", "oneOf": CONSTS},
    "texts within each other": {"anyOf": [{"anyOf": CONSTS[:1500]}, {"oneOf": CONSTS[1500:]}]},
    "texts by reference": {"$defs": {"Word": {"anyOf": CONSTS}}, "allOf": [{"$ref": "#/$defs/Word"}]},
    "numbers": {"anyOf": [{"const": number} for number in range(3000)]},
    "numbers and texts, alone and listed": {
        "anyOf": [*CONSTS[:1000], {"enum": WORDS[1000:]}, *({"const": number} for number in range(1000)), {"type": "null"}]
    },
    "and something else": {"anyOf": [*CONSTS, {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}]},
    "one of which it is, or something else": {"oneOf": [{"type": "boolean"}, *CONSTS, {"type": "integer"}]},
    "places that may be missing": {"type": "array", "prefixItems": [{"type": "boolean"}] * 1200, "items": False},
    "places": {"type": "array", "prefixItems": [{"type": "boolean"}] * 1200, "items": False, "minItems": 1200},
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def holds(opened: Opened, grammar: Grammar, text: str) -> bool:
    """Whether a grammar lets the JSON text through, token by token."""
    tokenizer, table = opened
    now = constraint(table, grammar)
    for token in tokenizer.encode(text, bare=True):
        if token not in allowed(now):
            return False
        now.accept(token)
    return now.stopped or tokenizer.token_id("<eos>") in allowed(now)


@pytest.mark.parametrize("name", MANY)
def test_what_is_said_in_json_is_one_of_thousands(name: str, opened: Opened) -> None:
    for seed in range(2):
        text = text_of(opened[0], drawn(*opened, JsonSchema(MANY[name]), seed, most=20_000))
        Draft202012Validator(MANY[name]).validate(json.loads(text))


@pytest.mark.parametrize("name", MANY)
def test_what_is_said_in_a_call_is_one_of_thousands(name: str, opened: Opened) -> None:
    defined = {"$defs": MANY[name]["$defs"]} if "$defs" in MANY[name] else {}
    tool = Tool("use", "", record("it", MANY[name]) | defined)
    for seed in range(2):
        tokens = drawn(*opened, tool_grammar([tool], "required", parallel=False), seed, most=20_000)
        (call,) = read_reply(opened[0], tokens)
        assert isinstance(call, ToolCall)
        Draft202012Validator(MANY[name]).validate(call.arguments["it"])


@pytest.mark.parametrize("name", [name for name in MANY if "text" in name])
def test_the_first_and_the_last_of_thousands_can_be_said_and_none_that_is_none_of_them(
    name: str, opened: Opened
) -> None:
    grammar = JsonSchema(MANY[name])
    assert holds(opened, grammar, '"value 0"')
    assert holds(opened, grammar, '"value 2999"')
    assert not holds(opened, grammar, '"value 3000"')
    assert not holds(opened, grammar, '"value"')


@pytest.mark.parametrize(("key", "kind"), [("prefixItems", "array"), ("properties", "object")])
def test_more_places_or_properties_than_can_be_held_are_refused_where_they_stand(
    key: str, kind: str, opened: Opened
) -> None:
    for count, is_held in ((2000, True), (2001, False)):
        listed: object = [{"type": "boolean"}] * count if key == "prefixItems" else {f"k{n}": {"const": 1} for n in range(count)}  # fmt: skip
        schema = {"type": "array", "items": {"type": kind, key: listed}, "maxItems": 1}
        if is_held:
            assert holds(opened, JsonSchema(schema), "[]")
        else:
            with pytest.raises(
                InputError, match=f"schema: #/items: {key}: there are 2001, and 2000 is the most"
            ):
                read_schema(schema)


def test_a_grammar_that_the_library_cant_number_is_refused_in_words(opened: Opened) -> None:
    properties = {f"k{n}": {"const": n} for n in range(1900)}
    schema = {"type": "array", "prefixItems": [{"properties": {f"{of}{name}": one for name, one in properties.items()}} for of in "ab"]}  # fmt: skip
    with pytest.raises(
        InputError, match=r"^grammar: it has more parts than the library can number.* with fewer$"
    ):
        constraint(opened[1], JsonSchema(schema))


def test_two_of_thousands_that_are_equal_are_told_in_little_time() -> None:
    """Each compared with each would be minutes; of nobody but of a machine that stands still, it takes seconds."""
    begin = time.perf_counter()
    with pytest.raises(InputError, match="#: oneOf: a value may fit both 17 and 3000"):
        read_schema({"oneOf": [*CONSTS, CONSTS[17]]})
    with pytest.raises(InputError, match="#: oneOf: a value may fit both 0 and 3000"):
        read_schema({"oneOf": [*CONSTS, {"type": "string", "minLength": 3}]})
    assert time.perf_counter() - begin < 10


def test_lists_and_objects_of_texts_are_as_many_as_a_call_can_hold_or_refused(opened: Opened) -> None:
    """Their texts stand between control tokens, so that they are no text of one piece. JSON has no such limit."""
    for count, is_held in ((500, True), (501, False)):
        schema = {"enum": [{"name": f"value {number}"} for number in range(count)]}
        Draft202012Validator(schema).validate(
            json.loads(text_of(opened[0], drawn(*opened, JsonSchema(schema), 1)))
        )
        tool = Tool("use", "", record("it", schema))
        if is_held:
            (call,) = read_reply(opened[0], drawn(*opened, tool_grammar([tool], "required"), 1))
            assert isinstance(call, ToolCall)
        else:
            with pytest.raises(InputError, match="501 lists or objects that hold texts"):
                tool_grammar([tool], "required")
