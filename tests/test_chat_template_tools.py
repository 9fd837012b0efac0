"""A checkpoint's own template gets tools, calls and results as transformers gives them, and no text of them can do harm."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chat_tokenizers import GEMMA3, small_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import ChatTemplateError, InputError
from doppler_core.text.chat import (
    ChatFormat,
    Control,
    Piece,
    Text,
    ToolCall,
    choose_format,
    format_named,
    read_messages,
    read_tools,
)
from doppler_core.text.chat.template import template_format

GEMMA4 = format_named("gemma4")
# In the manner of Gemma 4's, and shorter: declarations as JSON, arguments in its own notation.
TEMPLATE = """\
{%- macro value(x) -%}
  {%- if x is string -%}<|"|>{{ x }}<|"|>
  {%- elif x is mapping -%}{ {%- for k, v in x | dictsort %}{{ k }}:{{ value(v) }}{{ ',' if not loop.last }}{% endfor -%} }
  {%- else -%}{{ x | tojson }}{%- endif -%}
{%- endmacro -%}
{{- bos_token }}
{%- if tools or enable_thinking %}<|turn>system
{% if enable_thinking %}<|think|>
{% endif %}
{%- for tool in tools or [] %}<|tool>{{ tool.function | tojson }}<tool|>{% endfor %}<turn|>
{% endif %}
{%- for turn in messages %}
  {%- if turn.role == 'tool' %}<|tool_response>response:{{ turn.name }}{{ value({'value': turn.content}) }}<tool_response|>
  {%- else %}
    {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|turn>{{ 'model' if turn.role == 'assistant' else turn.role }}
{% endif %}
    {%- if turn.reasoning_content %}<|channel>thought
{{ turn.reasoning_content }}
<channel|>{% endif %}
    {%- for call in turn.tool_calls or [] %}<|tool_call>call:{{ call.function.name }}{{ value(call.function.arguments) }}<tool_call|>{% endfor %}
    {{- turn.content | trim }}
    {%- if not turn.tool_calls %}<turn|>
{% endif %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {%- if messages[-1].role != 'tool' %}<|turn>model
{% elif enable_thinking %}<|channel>thought
{% endif %}
{%- endif %}"""
TOOLS = read_tools(
    [
        {
            "name": "add",
            "description": "Adds",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }
    ]
)
ASK = {"role": "user", "content": "Q"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"b": "x", "a": {"c": 1}}}}
STEP: list[dict[str, Any]] = [
    ASK,
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "T"},
    {"role": "tool", "tool_call_id": "c1", "content": {"sum": 3}},
]


@cache
def own(text: str = TEMPLATE, control: tuple[str, ...] = GEMMA4.marks) -> ChatFormat:
    return template_format(Path("t.jinja"), text, {"bos_token": "<bos>"}, control)


def shown(pieces: Sequence[Piece]) -> str:
    """Pieces as text, control tokens in ⟦ ⟧."""
    return "".join(piece if isinstance(piece, str) else f"⟦{piece.token}⟧" for piece in pieces)


def plain(pieces: Sequence[Piece]) -> str:
    return "".join(piece if isinstance(piece, str) else piece.token for piece in pieces)


def test_tools_are_given_in_openais_form() -> None:
    text = shown(own().render(read_messages([ASK]), TOOLS))
    told = text.partition("⟦<|tool>⟧")[2].partition("⟦<tool|>⟧")[0]
    assert json.loads(told) == {
        "name": "add",
        "description": "Adds",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }


def test_calls_results_and_thoughts_are_given_too() -> None:
    assert plain(own().render(read_messages(STEP))) == (
        "<bos><|turn>user\nQ<turn|>\n<|turn>model\n<|channel>thought\nT\n<channel|>"
        '<|tool_call>call:add{a:{c:1},b:<|"|>x<|"|>}<tool_call|>'
        '<|tool_response>response:add{value:<|"|>{"sum": 3}<|"|>}<tool_response|>'
    )


def test_a_prompt_is_the_built_in_formats_where_the_template_means_the_same() -> None:
    messages = read_messages([ASK, {"role": "assistant", "content": "a"}, ASK])
    for thinking in (False, True):
        assert plain(own().render(messages, thinking=thinking)) == plain(
            GEMMA4.render(messages, thinking=thinking)
        )


def test_the_reply_is_read_as_gemma4s_also_within_a_thought_that_the_template_begins() -> None:
    chat_format = own()
    assert (chat_format.tools, chat_format.reasoning, chat_format.ends) == (True, True, GEMMA4.ends)
    assert chat_format.parser is not None
    prompt = chat_format.render(read_messages(STEP), thinking=True)
    assert plain(prompt).endswith("<|channel>thought\n")
    parser = chat_format.parser(prompt)
    assert [part.text for part in parser.text("So") if not isinstance(part, Text | ToolCall)] == ["So"]
    parser = chat_format.parser(chat_format.render(read_messages(STEP)))
    assert list(parser.text("So")) == [Text("So")]


def test_without_gemma4s_control_tokens_calls_are_told_in_text_and_tools_refused() -> None:
    chat_format = own("{% for turn in messages %}[{{ turn.role }}] {{ turn.content }}{% endfor %}", GEMMA3)
    assert (chat_format.tools, chat_format.reasoning, chat_format.parser) == (False, False, None)
    assert plain(chat_format.render(read_messages(STEP))) == (
        '[user] Q[assistant] I call add with {"b": "x", "a": {"c": 1}}[user] The result of add: {"sum": 3}'
    )
    with pytest.raises(InputError, match="tools: the chat format template has no form"):
        chat_format.render(read_messages([ASK]), TOOLS)


def test_a_template_that_knows_of_no_tools_is_an_error_and_no_silence() -> None:
    ignorant = own("{% for turn in messages %}{{ turn.content }}{% endfor %}")
    with pytest.raises(ChatTemplateError, match=r"t\.jinja: the template leaves out the tool add"):
        ignorant.render(read_messages([ASK]), TOOLS)
    with pytest.raises(ChatTemplateError, match="leaves out the tool add"):
        ignorant.render(read_messages(STEP))


def test_a_tokenizer_that_does_not_call_its_control_tokens_special_has_them_all_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    files = {"chat_template.jinja": tmp_path / "chat_template.jinja"}
    tokenizer = small_tokenizer(tmp_path, GEMMA4.marks, special=False)
    assert choose_format(None, files, tokenizer).tools


HOSTILE = st.one_of(
    st.sampled_from([*GEMMA4.marks, '"|>', "<|", "tool", "channel|>", "turn", '<|"|>}<tool_call|>']),
    st.text(st.sampled_from(list('<|">tol_ac{}')), max_size=8),
)


@settings(max_examples=60)
@given(st.lists(HOSTILE, min_size=6, max_size=6))
def test_no_text_of_anyone_becomes_a_control_token_alone_or_with_the_template(texts: list[str]) -> None:
    def rendered(texts: list[str]) -> Sequence[Piece]:
        description, key, value, argument, result, thought = texts
        schema = {"type": "object", "properties": {key: {"type": "string", "enum": [value]}}}
        tools = read_tools([{"name": "add", "description": description, "parameters": schema}])
        call = {"id": "c", "function": {"name": "add", "arguments": {argument: value}}}
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": value},
            {"role": "assistant", "tool_calls": [call], "reasoning_content": thought + "."},
            {"role": "tool", "content": result, "tool_call_id": "c"},
        ]
        return own().render(read_messages(messages), tools)

    found = rendered(texts)
    assert [piece for piece in found if isinstance(piece, Control)] == [
        piece for piece in rendered(["x"] * 6) if isinstance(piece, Control)
    ]
    assert not set(map(chr, range(0xFDD0, 0xFDF0))) & set(plain(found)), "a mark was left in the text"
