"""Under a JSON schema, whatever a model draws is compact JSON that validates."""

import json
import random

import pytest
from jsonschema import Draft202012Validator

from doppler_core.text.grammar.form import JsonSchema
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import Schema, drawn, open_table, random_schema, record, text_of

Opened = tuple[Tokenizer, TokenTable]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def check(schema: Schema, text: str) -> object:
    """The value of a text that validates, formats included, and is as short as JSON gets."""
    value = json.loads(text)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)
    return value


@pytest.mark.parametrize("batch", range(10))
def test_three_hundred_texts_of_random_tokens_validate_against_their_random_schemas(
    batch: int, opened: Opened
) -> None:
    for seed in range(batch * 30, batch * 30 + 30):
        schema = random_schema(random.Random(seed))
        Draft202012Validator.check_schema(schema)
        text = text_of(opened[0], drawn(*opened, JsonSchema(schema), seed))
        check(schema, text)


ODD = "".join(map(chr, range(32))) + '\x7f\\u0041"\\'


@pytest.mark.parametrize("schema", [{"enum": [ODD]}, record(ODD, {"const": ODD})], ids=["text", "key"])
def test_a_schema_of_control_characters_can_be_held(schema: Schema, opened: Opened) -> None:
    check(schema, text_of(opened[0], drawn(*opened, JsonSchema(schema), 1)))
