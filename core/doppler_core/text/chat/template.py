"""A checkpoint's own chat template, as a chat format: Jinja in a sandbox, wherever the publisher left it."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from doppler_core.errors import ChatTemplateError
from doppler_core.text.chat.form import ChatFormat, Piece
from doppler_core.text.chat.gemma3 import UNSAID as GEMMA3_UNSAID
from doppler_core.text.chat.gemma4_marks import (
    AROUND_THOUGHT,
    CALLS,
    ENDS,
    UNSAID,
)
from doppler_core.text.chat.gemma4_reply import Gemma4Reply
from doppler_core.text.chat.messages import Message, Tool, ToolCall
from doppler_core.text.chat.plain import as_plain
from doppler_core.text.chat.shield import Shield, unused_marks
from doppler_core.text.chat.template_values import template_values, texts_in
from doppler_core.text.tokenizer import well_formed
from doppler_core.weights.files import read_json_object, reading, regular_size

if TYPE_CHECKING:
    from doppler_core.text.chat.sandbox import Sandbox

TEMPLATE = "template"  # what such a chat format is called
_TEMPLATE, _OLD_TEMPLATE, _CONFIG = "chat_template.jinja", "chat_template.json", "tokenizer_config.json"
_MOST_BYTES = 1_000_000
_OF_CALLS = frozenset((*AROUND_THOUGHT, *CALLS))


@reading()
def find_template(files: Mapping[str, Path]) -> tuple[Path, str, dict[str, str]] | None:
    """Where a checkpoint's template stands, its text, and the control tokens it may name (`bos_token`, ...).

    None where there is none. Raises FileFormatError for a file that can't be read.
    """
    config = read_json_object(files[_CONFIG]) if _CONFIG in files else {}
    tokens = {
        key: token.get("content", "") if isinstance(token, dict) else token
        for key, token in config.items()
        if key.endswith("_token") and isinstance(token, str | dict)
    }
    if _TEMPLATE in files:
        path = files[_TEMPLATE]
        if regular_size(path) <= _MOST_BYTES:
            return path, path.read_text("utf-8", errors="replace"), tokens
        return path, "", tokens
    for name in (_CONFIG, _OLD_TEMPLATE):
        values = read_json_object(files[name]) if name in files else {}
        if text := _default(values.get("chat_template")):
            return files[name], text, tokens
    return None


def _default(value: object) -> str | None:
    """The template that is used where nothing is asked for: the only one, or of several the one named so."""
    if isinstance(value, list):
        named = {one.get("name"): one.get("template") for one in value if isinstance(one, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def template_format(path: Path, text: str, tokens: Mapping[str, str], control: Collection[str]) -> ChatFormat:
    """The chat format of a template. It is compiled when it is first used, and ChatTemplateError says what is wrong.

    path: where it stands, for errors. control: the tokenizer's control tokens. With those of Gemma 4 among them, the
    template is given tools, calls and results, and the reply is read as Gemma 4's; else calls and results are told in
    text.
    """

    @cache
    def sandbox() -> "Sandbox":
        from doppler_core.text.chat.sandbox import Sandbox

        return Sandbox(path, text)

    shield = Shield(control)
    calls = {*control} >= _OF_CALLS

    def write(messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False) -> list[Piece]:
        messages = messages if calls else as_plain(messages)
        mark, end = unused_marks(texts_in(template_values(messages, tools, str)))
        turns, offered = template_values(messages, tools, lambda said: shield.put_on(said, mark))
        goes_on = messages[-1].role == "assistant"
        if goes_on:
            turns[-1]["content"] += end
        variables = {**tokens, "messages": turns, "add_generation_prompt": not goes_on}
        variables |= {"tools": offered} if offered else {}
        variables |= {"enable_thinking": True} if thinking else {}
        rendered = well_formed(sandbox().render(variables))
        if goes_on:
            rendered, found, _ = rendered.rpartition(end)
            if not found:
                raise ChatTemplateError(
                    f"{path}: the template leaves out the last message: end with a user's"
                )
        _check_names(messages, tools, rendered.replace(mark, ""), path)
        return shield.take_off(rendered, mark)

    if not calls:
        return ChatFormat(TEMPLATE, write, tuple(control), unsaid=GEMMA3_UNSAID)
    return ChatFormat(
        TEMPLATE,
        write,
        tuple(control),
        parser=Gemma4Reply,
        tools=True,
        reasoning=True,
        ends=ENDS,
        thought=AROUND_THOUGHT,
        calls=CALLS,
        unsaid=UNSAID,
    )


def _check_names(messages: Sequence[Message], tools: Sequence[Tool], rendered: str, path: Path) -> None:
    """ChatTemplateError where a template passes over a tool or a call, as those do that know of none."""
    parts = [part for message in messages for part in message.parts]
    called = [part.name for part in parts if isinstance(part, ToolCall)]
    for name in (*(tool.name for tool in tools), *called):
        if name not in rendered:
            raise ChatTemplateError(
                f"{path}: the template leaves out the tool {name}: it knows of none; name a chat_format"
            )
