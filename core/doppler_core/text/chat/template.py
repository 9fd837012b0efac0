"""A checkpoint's own chat template, as a chat format: Jinja in a sandbox, where the publisher left it.

The text that comes out is cut at its control tokens. Those that a message spells are not among them: messages go in
with a mark inside every spelling, and at either end where one could be completed by what the template puts there; the
marks are taken out of the texts between the control tokens. A message that spells none goes in as it is, so that the
template sees what its author expected.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from doppler_core.errors import ChatTemplateError, InputError
from doppler_core.text.chat.form import ChatFormat, Control, Piece
from doppler_core.text.chat.messages import Message
from doppler_core.weights.files import read_json_object, reading, regular_size

if TYPE_CHECKING:
    from doppler_core.text.chat.sandbox import Sandbox

_TEMPLATE, _OLD_TEMPLATE, _CONFIG = "chat_template.jinja", "chat_template.json", "tokenizer_config.json"
_MOST_BYTES = 1_000_000
# Characters that Unicode keeps from ever being assigned: no honest text holds all of them.
_MARKS = [chr(point) for point in range(0xFDD0, 0xFDF0)]


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

    path: where it stands, for errors. control: the tokenizer's control tokens.
    """

    @cache
    def sandbox() -> "Sandbox":
        from doppler_core.text.chat.sandbox import Sandbox

        return Sandbox(path, text)

    spellings = sorted(filter(None, control), key=len, reverse=True)
    cut = re.compile("|".join(map(re.escape, spellings)) or r"(?!)")

    def render(messages: Sequence[Message]) -> list[Piece]:
        mark, end = _unused(messages)
        turns = [{"role": one.role, "content": _shielded(one.text, spellings, mark)} for one in messages]
        goes_on = messages[-1].role == "assistant"
        if goes_on:
            turns[-1]["content"] += end
        rendered = sandbox().render({**tokens, "messages": turns, "add_generation_prompt": not goes_on})
        if goes_on:
            rendered, found, _ = rendered.rpartition(end)
            if not found:
                raise ChatTemplateError(
                    f"{path}: the template leaves out the last message: end with a user's"
                )
        return _pieces(rendered, cut, mark)

    return ChatFormat("template", render, tuple(spellings))


def _pieces(rendered: str, cut: re.Pattern[str], mark: str) -> list[Piece]:
    pieces: list[Piece] = []
    begin = 0
    for match in cut.finditer(rendered):
        pieces += [rendered[begin : match.start()].replace(mark, ""), Control(match[0])]
        begin = match.end()
    return [*pieces, rendered[begin:].replace(mark, "")]


def _unused(messages: Sequence[Message]) -> tuple[str, str]:
    """Two characters that no message holds."""
    used = set().union(*(message.text for message in messages))
    free = [mark for mark in _MARKS if mark not in used]
    if len(free) < 2:
        raise InputError(
            "messages: a text holds the characters U+FDD0 to U+FDEF, which are none: take them out"
        )
    return free[0], free[1]


def _shielded(text: str, spellings: Sequence[str], mark: str) -> str:
    """`text` with `mark` where a control token is spelled, or might be together with what comes before or after."""
    body = text.strip()
    if not body:
        return text
    before = any(_continues(spelling, body) for spelling in spellings)
    after = any(body.endswith(spelling[:size]) for spelling in spellings for size in range(1, len(spelling)))
    for spelling in spellings:
        body = body.replace(spelling, spelling[0] + mark + spelling[1:])
    left, right = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return left + mark * before + body + mark * after + right


def _continues(spelling: str, body: str) -> bool:
    """Whether `body` begins with the rest of a control token that has begun before it, or is a part of that rest."""
    return body in spelling[1:] or any(body.startswith(spelling[at:]) for at in range(1, len(spelling)))
