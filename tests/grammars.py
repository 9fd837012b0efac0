"""Schemas and texts drawn at random: what a model without a clue writes under a grammar."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.text.chat.gemma4_marks import ENDS, MARKS
from doppler_core.text.chat.gemma4_reply import Gemma4Reply
from doppler_core.text.chat.messages import ReplyPart
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.grammar.form import Grammar
from doppler_core.text.grammar.masks import Constraint, constraint
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import Tokenizer
from tests.chat_tokenizers import small_tokenizer

Schema = dict[str, Any]


def record(key: str, schema: Any) -> Schema:
    """An object with one key, which it must have."""
    return {"type": "object", "properties": {key: schema}, "required": [key]}


def open_table(folder: Path) -> tuple[Tokenizer, TokenTable]:
    """A small tokenizer with Gemma 4's control tokens, and its table. It has fewer tokens than the model has rows."""
    tokenizer = small_tokenizer(folder, MARKS)
    ends = [number for name in ENDS if (number := tokenizer.token_id(name)) is not None]
    assert len(ends) == len(ENDS)
    return tokenizer, TokenTable(tokenizer, ends)


def allowed(now: Constraint) -> npt.NDArray[np.int64]:
    """The tokens that may come next."""
    return np.flatnonzero(np.unpackbits(now.words().view(np.uint8), bitorder="little"))


def control_ids(tokenizer: Tokenizer) -> set[int]:
    found = {tokenizer.token_id(name) for name in tokenizer.control}
    return {number for number in found if number is not None}


def drawn(
    tokenizer: Tokenizer, table: TokenTable, grammar: Grammar, seed: int, most: int = 4000
) -> list[int]:
    """Tokens of a model with random weights, each as likely as another, up to an end token, which is not among them."""
    rng = np.random.default_rng(seed)
    ends = {tokenizer.token_id(name) for name in ENDS}
    now = constraint(table, grammar)
    tokens: list[int] = []
    while len(tokens) < most:
        token = int(rng.choice(allowed(now)))
        now.accept(token)
        if token in ends:
            return tokens
        tokens.append(token)
    raise AssertionError(f"no end after {most} tokens: {text_of(tokenizer, tokens)[:2000]}")


def text_of(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """The text of tokens, control tokens by their names. Raises where it is no UTF-8."""
    names = {tokenizer.token_id(name): name.encode() for name in tokenizer.control}
    return b"".join(names.get(token, tokenizer.piece(token)) for token in tokens).decode()


def read_reply(tokenizer: Tokenizer, tokens: Iterable[int]) -> list[ReplyPart]:
    """What a reply's parser makes of tokens."""
    parser, letters = Gemma4Reply(), Detokenizer(tokenizer)
    parts: list[ReplyPart] = []
    for token in tokens:
        name = tokenizer.control_name(token)
        parts += parser.text(letters.push(token)) if name is None else parser.control(name)
    return [*parts, *parser.finish()]


def random_schema(rng: random.Random, depth: int = 3, definitions: int = 2) -> Schema:
    """A schema of an object, of all that a grammar can hold, with definitions that refer to themselves.

    depth: how many objects and lists may stand in each other, definitions apart. definitions: how many at most.
    """
    names = [f"D{index}" for index in range(rng.randint(0, definitions))]
    root = _record(rng, depth, names)
    if names:
        root["$defs"] = {name: _definition(rng, name, names) for name in names}
    return root


def _definition(rng: random.Random, name: str, names: list[str]) -> Schema:
    record = _record(rng, 1, [])
    record["properties"]["again"] = {"anyOf": [{"$ref": f"#/$defs/{rng.choice(names)}"}, {"type": "null"}]}
    record["properties"]["children"] = {"type": "array", "items": {"$ref": f"#/$defs/{name}"}, "maxItems": 1}
    return record


def _schema(rng: random.Random, depth: int, names: list[str]) -> Schema:
    simple = [
        _text,
        _whole,
        _number,
        _values,
        _types,
        lambda rng: {"type": "boolean"},
        lambda rng: {"const": rng.choice([1, "a", None, [1, {"b": 2.5}]])},
    ]
    nested = [_record, _list, _any_of, _one_of, _all_of]
    if names and rng.random() < 0.3:
        return {"$ref": f"#/$defs/{rng.choice(names)}", "description": "said beside it"}
    if depth <= 0 or rng.random() < 0.5:
        return rng.choice(simple)(rng)
    return rng.choice(nested)(rng, depth - 1, names)


_KEYS = [
    "a",
    "b",
    "name",
    "type",
    "description",
    "Zeta",
    "required",
    "the count",
    "k:v",
    "naïve",
    'quo"te',
    "x-y.z",
]


def _record(rng: random.Random, depth: int, names: list[str]) -> Schema:
    keys = rng.sample(_KEYS, rng.randint(0, 4))
    record: Schema = {"type": "object", "properties": {key: _schema(rng, depth, names) for key in keys}}
    if rng.random() < 0.8:
        record["required"] = [key for key in keys if rng.random() < 0.6]
    if rng.random() < 0.3:
        record["additionalProperties"] = False
    return record


def _list(rng: random.Random, depth: int, names: list[str]) -> Schema:
    schema: Schema = {"type": "array", "items": _schema(rng, depth, names), "maxItems": rng.randint(1, 3)}
    if rng.random() < 0.4:
        schema["prefixItems"] = [_schema(rng, 0, []) for _ in range(rng.randint(1, 2))]
        schema["items"] = rng.choice([False, schema["items"]])
    if rng.random() < 0.5 and schema["items"]:
        schema["minItems"] = rng.randint(0, schema["maxItems"])
    return schema


def _any_of(rng: random.Random, depth: int, names: list[str]) -> Schema:
    return {"anyOf": [_schema(rng, depth, names) for _ in range(rng.randint(1, 3))]}


def _one_of(rng: random.Random, depth: int, names: list[str]) -> Schema:
    def branch(kind: str) -> Schema:
        keys = {"kind": {"const": kind}, "value": _schema(rng, depth, names)}
        return {"type": "object", "properties": keys, "required": ["kind"]}

    return {
        "oneOf": [branch("cat"), branch("dog"), {"type": "integer"}],
        "discriminator": {"propertyName": "kind"},
    }


def _all_of(rng: random.Random, depth: int, names: list[str]) -> Schema:
    one, other = ({"type": "object", "properties": {key: _schema(rng, depth, names)}} for key in "pq")
    return {"allOf": [one, other | {"required": ["p", "q"]}]}


def _text(rng: random.Random) -> Schema:
    limits: list[Schema] = [
        {"maxLength": rng.randint(0, 12)},
        {"minLength": 2, "maxLength": 5},
        {"pattern": "^[A-Z]{2}-\\d{3}$"},
        {"pattern": "^(yes|no)", "maxLength": 6},
        {"pattern": "[0-9]", "maxLength": 4},
        {"pattern": '^["\\\\/]{1,3}$'},
        *({"format": name} for name in ("date", "time", "date-time", "uuid", "ipv4", "ipv6", "duration")),
        {"format": "email", "maxLength": 16},
        {"format": "password", "maxLength": 3},
    ]
    return {"type": "string"} | rng.choice(limits)


def _whole(rng: random.Random) -> Schema:
    limits: list[Schema] = [
        {},
        {"minimum": -3},
        {"minimum": 7, "maximum": 1234},
        {"exclusiveMaximum": 0, "multipleOf": 5},
    ]
    return {"type": "integer"} | rng.choice(limits)


def _number(rng: random.Random) -> Schema:
    return {"type": "number"} | rng.choice(
        [{}, {"minimum": 0, "maximum": 1}, {"exclusiveMinimum": -2.5, "maximum": 40}]
    )


def _values(rng: random.Random) -> Schema:
    return rng.choice(
        [{"enum": ["C", "F", "a\nb", ""]}, {"type": "string", "enum": ["x", 1]}, {"enum": [True, None, 3]}]
    )


def _types(rng: random.Random) -> Schema:
    return {"type": rng.sample(["integer", "boolean", "null", "string"], 2), "maxLength": 4}
