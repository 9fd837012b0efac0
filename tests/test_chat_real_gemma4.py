"""Gemma 4's chat format on the real vocabulary: the ids of the whole prompt, and calls that come back through them.

Gemma 4 has the vocabulary of Gemma 3 and EmbeddingGemma, its control tokens in places that were not used.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from doppler_core.text.chat import (
    Control,
    Message,
    ReplyPart,
    ToolCall,
    chat_ids,
    control_ids,
    format_named,
    read_messages,
    read_tools,
)
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.tokenizer import Tokenizer

pytestmark = pytest.mark.real

GEMMA4 = format_named("gemma4")
PLACES = {46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>", 49: "<tool_call|>"}
PLACES |= {50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>'}
PLACES |= {98: "<|think|>", 100: "<|channel>", 101: "<channel|>", 105: "<|turn>", 106: "<turn|>"}
CASES = json.loads((Path(__file__).parent / "data" / "chat_gemma4.json").read_text("utf-8"))
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=16),
    st.text(st.sampled_from(list('ab 12\n{}[]:,"<|>é')), max_size=16),
    st.sampled_from(list(PLACES.values())),
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    real = Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "embeddinggemma-300m" / "tokenizer.json"
    values = json.loads(real.read_text("utf-8"))
    for token in values["added_tokens"]:
        if token["id"] in PLACES:
            del values["model"]["vocab"][token["content"]]
            values["model"]["vocab"][PLACES[token["id"]]] = token["id"]
            token |= {"content": PLACES[token["id"]], "special": True}
    path = tmp_path_factory.mktemp("gemma4") / "tokenizer.json"
    path.write_text(json.dumps(values), "utf-8")
    return Tokenizer(path, 262_144)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "empty_thought" not in case.get("options", {})], ids=str
)
def test_a_prompt_has_the_ids_of_the_whole_template(tokenizer: Tokenizer, case: dict[str, Any]) -> None:
    thinking = case.get("options", {}).get("thinking", False)
    found = chat_ids(case["messages"], GEMMA4, tokenizer, case.get("tools", ()), thinking)
    publishers = Backend.from_file(str(tokenizer.path))
    assert found == publishers.encode(case["text"], add_special_tokens=False).ids


@settings(max_examples=150)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_any_call_comes_back_through_the_ids(tokenizer: Tokenizer, arguments: dict[str, Any]) -> None:
    call = ToolCall("get_it", arguments)
    messages = read_messages(
        [{"role": "user", "content": "Q"}, Message("assistant", (call,)), {"role": "tool", "content": "x"}]
    )
    ids = chat_ids(messages, GEMMA4, tokenizer)
    marks = control_ids(GEMMA4, tokenizer)
    assert GEMMA4.parser is not None
    parser, detokenizer = GEMMA4.parser(), Detokenizer(tokenizer)
    parts: list[ReplyPart] = []
    for number in ids[ids.index(48) : ids.index(50)]:
        parts += parser.control(marks[number]) if number in marks else parser.text(detokenizer.push(number))
    parts += parser.finish()
    (found,) = parts
    assert isinstance(found, ToolCall)
    assert json.dumps(found.arguments, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def test_no_text_of_a_tool_a_call_or_a_result_becomes_a_control_token(tokenizer: Tokenizer) -> None:
    def controls(text: str) -> list[int]:
        schema = {"type": "object", "properties": {f"{text}:": {"type": "string", "description": text}}}
        tools = read_tools([{"name": "f", "description": text, "parameters": schema}])
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": text},
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": {f"{text}:": [text]}}}],
            },
            {"role": "tool", "content": {f"{text}:": text}},
        ]
        return [
            number
            for number in chat_ids(messages, GEMMA4, tokenizer, tools)
            if number in control_ids(GEMMA4, tokenizer)
        ]

    spelled = "".join(PLACES.values())
    assert Control(PLACES[48]).token in spelled
    assert controls(spelled) == controls("x")
