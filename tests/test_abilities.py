"""What a model can do in a conversation: asked of its chat format with its own tokenizer."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from chat_tokenizers import GEMMA3, GEMMA4, small_tokenizer

from doppler_core.engine.abilities import with_chat
from doppler_core.engine.request import Capabilities
from doppler_core.text.chat import choose_format, format_named

ALL = format_named("gemma4").marks


@pytest.mark.parametrize(
    ("form", "control", "chat", "tools", "reasoning"),
    [
        ("gemma3", GEMMA3, True, False, False),
        ("gemma4", ALL, True, True, True),
        ("gemma4", GEMMA4, True, False, True),
        ("gemma4", [mark for mark in ALL if mark != '<|"|>'], True, False, True),
        ("gemma4", [mark for mark in ALL if mark != "<tool_response|>"], True, False, True),
        ("gemma4", [mark for mark in ALL if mark != "<|think|>"], True, True, False),
        ("gemma4", GEMMA3, False, False, False),
        (None, GEMMA3, False, False, False),
    ],
)
def test_a_model_can_do_what_its_tokenizer_has_the_tokens_for(
    tmp_path: Path, form: str | None, control: Sequence[str], chat: bool, tools: bool, reasoning: bool
) -> None:
    tokenizer = small_tokenizer(tmp_path, control)
    chat_format = choose_format(None, {}, tokenizer) if form is None else format_named(form)
    found = with_chat(Capabilities(generates=True, context_length=7), chat_format, tokenizer)
    assert (found.chat, found.tools, found.reasoning) == (chat, tools, reasoning)
    assert (found.generates, found.context_length) == (True, 7)


@pytest.mark.parametrize(("control", "able"), [(GEMMA3, False), (ALL, True)])
def test_a_checkpoints_own_template_is_not_run_to_find_out(
    tmp_path: Path, control: Sequence[str], able: bool
) -> None:
    tokenizer = small_tokenizer(tmp_path, control)
    path = tmp_path / "chat_template.jinja"
    path.write_text("{% for a in range(100000000) %}{% endfor %}{{ nothing.there.at.all }}")
    chat_format = choose_format(None, {path.name: path}, tokenizer)
    begin = time.perf_counter()
    found = with_chat(Capabilities(generates=True), chat_format, tokenizer)
    assert time.perf_counter() - begin < 1
    assert (found.chat, found.tools, found.reasoning) == (True, able, able)
