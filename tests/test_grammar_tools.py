"""Under a tool grammar, whatever a model draws is calls that read back to values of their schemas."""

import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from doppler_core.text.chat.gemma4_reply import Gemma4Reply
from doppler_core.text.chat.messages import ReplyPart, Tool, ToolCall
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.tool_grammar import tool_grammar
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import drawn, open_table, random_schema, text_of

Opened = tuple[Tokenizer, TokenTable]

SUM = Tool("sum", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
NOW = Tool("now")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def read(tokenizer: Tokenizer, tokens: list[int]) -> list[ReplyPart]:
    """What a reply's parser makes of tokens; texts that follow each other as one."""
    parser, letters = Gemma4Reply(), Detokenizer(tokenizer)
    parts: list[ReplyPart] = []
    for token in tokens:
        name = tokenizer.control_name(token)
        parts += parser.text(letters.push(token)) if name is None else parser.control(name)
    parts += parser.finish()
    return parts


def names(tokenizer: Tokenizer, tokens: Any) -> set[str]:
    """Those of the tokens that are control tokens, by their texts."""
    return {name for token in tokens if (name := tokenizer.control_name(int(token))) is not None}


@pytest.mark.parametrize("batch", range(10))
def test_three_hundred_drawn_calls_of_random_tools_read_back_to_valid_arguments(
    batch: int, opened: Opened
) -> None:
    for seed in range(batch * 30, batch * 30 + 30):
        rng = random.Random(seed)
        tools = {name: Tool(name, "", random_schema(rng)) for name in ("first", "second.one")}
        tokens = drawn(*opened, tool_grammar(list(tools.values()), "required", parallel=True), seed)
        parts = read(opened[0], tokens)
        assert parts
        for part in parts:
            assert isinstance(part, ToolCall), f"{seed}: {part} of {text_of(opened[0], tokens)}"
            schema = tools[part.name].parameters
            Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
                part.arguments
            )
