"""Under a tool grammar, whatever a model draws is calls that read back to values of their schemas."""

import random
import re
from collections.abc import Sequence

import pytest
from jsonschema import Draft202012Validator

from doppler_core.errors import InputError
from doppler_core.text.chat.gemma4_calls import call_pieces
from doppler_core.text.chat.gemma4_marks import ENDS, MARKS
from doppler_core.text.chat.messages import Reasoning, Text, Tool, ToolCall
from doppler_core.text.grammar.form import JsonSchema, Lark, Regex
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.thinking import after_thought
from doppler_core.text.grammar.tool_grammar import tool_grammar
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import allowed, drawn, open_table, random_schema, read_reply, text_of

Opened = tuple[Tokenizer, TokenTable]

CITY = {"type": "string", "maxLength": 8}
WEATHER = Tool(
    "get_weather",
    "",
    {
        "type": "object",
        "properties": {
            "city": CITY,
            "Days": {"type": "integer"},
            "at": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "b": {"type": "boolean"},
        },
        "required": ["city"],
        "$defs": {
            "Place": {"type": "object", "properties": {"within": {"$ref": "#/$defs/Place"}, "name": CITY}}
        },
    },
)
NOW = Tool("now")
THOUGHT = ("<|channel>", "<channel|>")
ANSWER = JsonSchema({"type": "object", "properties": {"answer": {"type": "boolean"}}, "required": ["answer"]})


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text whose control tokens are meant."""
    mark = re.compile("(" + "|".join(sorted(map(re.escape, MARKS), key=len, reverse=True)) + ")")
    found: list[int] = []
    for piece in mark.split(text):
        number = tokenizer.token_id(piece) if piece in MARKS else None
        found += tokenizer.encode(piece, bare=True) if number is None else [number]
    return found


def holds(opened: Opened, grammar: Lark, text: str) -> bool:
    """Whether a grammar lets a whole text through, token by token."""
    now = constraint(opened[1], grammar)
    for token in ids(opened[0], text):
        if token not in allowed(now):
            return False
        now.accept(token)
    return opened[0].token_id("<turn|>") in allowed(now)


def begins(opened: Opened, grammar: Lark, text: str = "") -> set[str]:
    """What may come after a text: control tokens by name, and "text" for any other."""
    now = constraint(opened[1], grammar)
    for token in ids(opened[0], text):
        now.accept(token)
    return {opened[0].control_name(int(token)) or "text" for token in allowed(now)}


@pytest.mark.parametrize("batch", range(10))
def test_three_hundred_drawn_calls_of_random_tools_read_back_to_valid_arguments(
    batch: int, opened: Opened
) -> None:
    for seed in range(batch * 30, batch * 30 + 30):
        rng = random.Random(seed)
        tools = {name: Tool(name, "", random_schema(rng)) for name in ("first", "second.one")}
        tokens = drawn(*opened, tool_grammar(list(tools.values()), "required", parallel=True), seed)
        parts = read_reply(opened[0], tokens)
        assert parts
        for part in parts:
            assert isinstance(part, ToolCall), f"{seed}: {part} of {text_of(opened[0], tokens)}"
            schema = tools[part.name].parameters
            Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
                part.arguments
            )


CALL = '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>'
NOW_CALL = "<|tool_call>call:now{}<tool_call|>"


@pytest.mark.parametrize(
    "arguments",
    [
        'city:<|"|>Oslo<|"|>',
        'city:<|"|><|"|>',
        'city:<|"|>{a:},"\\\n<|"|>',
        'b:true,city:<|"|>Rio<|"|>,Days:-20',
        'at:null,city:<|"|>Rio<|"|>',
        'at:{name:<|"|>x<|"|>,within:{within:{}}},b:false,city:<|"|>Rio<|"|>,Days:0',
    ],
)
def test_a_call_holds_its_parameters_in_the_order_of_the_prompts_renderer(
    arguments: str, opened: Opened
) -> None:
    call = f"<|tool_call>call:get_weather{{{arguments}}}<tool_call|>"
    assert holds(opened, tool_grammar([WEATHER, NOW]), call)
    (part,) = read_reply(opened[0], ids(opened[0], call))
    assert isinstance(part, ToolCall)
    rendered = "".join(piece if isinstance(piece, str) else piece.token for piece in call_pieces(part))
    assert rendered == call


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        'city:<|"|>a city too long<|"|>',
        "city:Oslo",
        'city:"Oslo"',
        'city:<|"|>Oslo<|"|>,b:true',
        'city:<|"|>Oslo<|"|>,Days:1.5',
        'city:<|"|>Oslo<|"|>,Days:<|"|>1<|"|>',
        'city:<|"|>Oslo<|"|>,land:null',
        'b:null,city:<|"|>Oslo<|"|>',
        'b: true,city:<|"|>Oslo<|"|>',
        'city:<|"|>Oslo<|"|>,',
        'at:{within:null},city:<|"|>Oslo<|"|>',
    ],
)
def test_a_call_that_its_schema_forbids_is_not_let_through(arguments: str, opened: Opened) -> None:
    assert not holds(
        opened, tool_grammar([WEATHER, NOW]), f"<|tool_call>call:get_weather{{{arguments}}}<tool_call|>"
    )


def test_a_text_in_a_call_takes_any_character_and_no_control_token_but_its_end(opened: Opened) -> None:
    tool = Tool("say", "", {"type": "object", "properties": {"it": {"type": "string"}}, "required": ["it"]})
    inside = '<|tool_call>call:say{it:<|"|>x'
    assert begins(opened, tool_grammar([tool]), inside) == {"text", '<|"|>'}
    spelled = 'so "it" is\n{[,:]} \\ \u00e9\U0001f600 <turn|>'
    now = constraint(opened[1], tool_grammar([tool]))
    for token in [
        *ids(opened[0], inside),
        *opened[0].encode(spelled, bare=True),
        *ids(opened[0], '<|"|>}<tool_call|>'),
    ]:
        now.accept(token)
    assert opened[0].token_id("<turn|>") in allowed(now)


def test_auto_lets_text_stand_before_calls_and_nothing_but_an_end_after_them(opened: Opened) -> None:
    grammar = tool_grammar([WEATHER, NOW])
    assert begins(opened, grammar) == {"text", "<|tool_call>", *ENDS}
    assert begins(opened, grammar, "Let me see. ") == {"text", "<|tool_call>", *ENDS}
    assert begins(opened, grammar, f"Let me see. {CALL}") == {"<|tool_call>", *ENDS}
    assert holds(opened, grammar, f"Let me see. {CALL}{NOW_CALL}")
    assert not holds(opened, grammar, f"{CALL} so")


def test_none_lets_no_call_through(opened: Opened) -> None:
    assert begins(opened, tool_grammar([WEATHER], "none")) == {"text", *ENDS}
    assert begins(opened, tool_grammar([])) == {"text", *ENDS}


def test_required_lets_no_text_through(opened: Opened) -> None:
    grammar = tool_grammar([WEATHER, NOW], "required")
    assert begins(opened, grammar) == {"<|tool_call>"}
    assert holds(opened, grammar, NOW_CALL + CALL)


def test_a_tools_name_lets_no_other_through(opened: Opened) -> None:
    grammar = tool_grammar([WEATHER, NOW], "get_weather")
    assert holds(opened, grammar, CALL + CALL)
    assert not holds(opened, grammar, NOW_CALL)


@pytest.mark.parametrize("choice", ["auto", "required", "now"])
def test_one_call_is_the_last_where_parallel_ones_are_not_wanted(choice: str, opened: Opened) -> None:
    assert begins(opened, tool_grammar([NOW], choice, parallel=False), NOW_CALL) == set(ENDS)


def test_calls_or_the_json_of_an_answer(opened: Opened) -> None:
    grammar = tool_grammar([WEATHER, NOW], otherwise=ANSWER)
    assert begins(opened, grammar) == {"text", "<|tool_call>"}
    assert holds(opened, grammar, '{"answer":true}')
    assert holds(opened, grammar, CALL + NOW_CALL)
    assert not holds(opened, grammar, "Let me see.")
    assert not holds(opened, grammar, '{"answer":true}' + CALL)
    assert begins(opened, grammar, '{"answer":true}') == set(ENDS)
    assert holds(opened, tool_grammar([NOW], "none", otherwise=Regex("yes|no")), "no")


def test_a_thought_may_come_before_anything(opened: Opened) -> None:
    for grammar, answer in (
        (tool_grammar([NOW], "required"), NOW_CALL),
        (Regex("yes|no"), "yes"),
        (ANSWER, '{"answer":false}'),
    ):
        thinking = after_thought(grammar, *THOUGHT)
        assert holds(opened, thinking, answer)
        assert holds(opened, thinking, f"<|channel>thought\nHm, no.<channel|>{answer}")
        assert holds(opened, thinking, f"<|channel>thought\n<channel|>{answer}")
        assert not holds(opened, thinking, "<|channel>thought\nHm.<channel|>maybe")
        assert not holds(opened, thinking, "<|channel>thought\nHm.<channel|>")
    opened_thought = after_thought(Regex("yes|no"), *THOUGHT, within=True)
    assert begins(opened, opened_thought) == {"text", "<channel|>"}
    assert holds(opened, opened_thought, "Hm.<channel|>no")


def test_a_thought_and_calls_of_random_tokens_are_read_apart(opened: Opened) -> None:
    grammar = after_thought(tool_grammar([WEATHER, NOW], otherwise=ANSWER), *THOUGHT)
    kinds = set()
    for seed in range(60):
        parts = read_reply(opened[0], drawn(*opened, grammar, seed, most=20_000))
        assert all(isinstance(part, Reasoning | Text | ToolCall) for part in parts)
        kinds |= {type(part) for part in parts}
    assert kinds == {Reasoning, Text, ToolCall}


def test_a_choice_that_is_none_is_named(opened: Opened) -> None:
    with pytest.raises(
        InputError,
        match=r"tool_choice: 'sing' is neither auto, none, required nor a tool: there is get_weather, now",
    ):
        tool_grammar([WEATHER, NOW], "sing")
    with pytest.raises(InputError, match="no tool"):
        tool_grammar([], "required")


def test_a_schema_that_a_grammar_cant_hold_is_blamed_on_its_tool() -> None:
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    tool = Tool("label", "", {"type": "object", "properties": {"tags": tags}})
    with pytest.raises(
        InputError, match=r"tool label: parameters: #/properties/tags: uniqueItems: a grammar can't hold"
    ):
        tool_grammar([tool])


def test_keys_of_nobodys_choice_are_none_of_the_listed_ones(opened: Opened) -> None:
    values = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "additionalProperties": {"type": "integer"},
    }
    grammar = tool_grammar([Tool("put", "", values)], "put")

    def call(arguments: str) -> str:
        return f"<|tool_call>call:put{{{arguments}}}<tool_call|>"

    for arguments in ("", "a:true", "b:1", "a:true,b:1,c d:2", 'a:true,<|"|>k:{v<|"|>:1', "ab:1"):
        assert holds(opened, grammar, call(arguments)), arguments
    for arguments in ("a:1", "b:true", 'a:true,<|"|>a<|"|>:1', " b:1"):
        assert not holds(opened, grammar, call(arguments)), arguments


def test_a_tool_of_any_arguments_takes_any_value(opened: Opened) -> None:
    grammar = tool_grammar([Tool("any", "", {"type": "object"})])
    call = '<|tool_call>call:any{a:[1,-2.5e3,{b:null,c:[]}],d:<|"|>x<|"|>,e:{},f:false}<tool_call|>'
    assert holds(opened, grammar, call)
    for seed in range(40):
        parts = read_reply(opened[0], drawn(*opened, grammar, seed, most=20_000))
        assert all(isinstance(part, Text | ToolCall) for part in parts)


def test_a_tool_without_parameters_takes_none(opened: Opened) -> None:
    for parameters in ({}, {"type": "object", "properties": {}}, {"properties": {}, "required": []}):
        grammar = tool_grammar([Tool("now", "", parameters)])
        assert holds(opened, grammar, NOW_CALL)
        assert not holds(opened, grammar, "<|tool_call>call:now{a:1}<tool_call|>")


@pytest.mark.parametrize("required", [False, True])
def test_a_tool_may_have_hundreds_of_parameters(required: bool, opened: Opened) -> None:
    keys = [f"k{at:03}" for at in range(120)]
    schema = {
        "type": "object",
        "properties": {key: {"type": "integer"} for key in keys},
        "required": keys if required else [],
    }
    grammar = tool_grammar([Tool("put", "", schema)])

    def call(keys: Sequence[str]) -> str:
        return f"<|tool_call>call:put{{{','.join(f'{key}:1' for key in keys)}}}<tool_call|>"

    assert holds(opened, grammar, call(keys))
    for some in (keys[:-1], keys[1:], keys[15:17], keys[::16], []):
        assert holds(opened, grammar, call(some)) == (not required)
    assert not holds(opened, grammar, call([*keys[:5], keys[3]]))
