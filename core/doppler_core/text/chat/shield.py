"""Keeps the control tokens that a message spells apart from those that a template writes.

Messages go into a template with a mark inside every spelling, and at either end where one could be completed by what
the template puts there. What comes out is cut at the spellings that are left, and the marks are taken out. A text that
spells nothing goes in as it is, so that a template sees what its author expected.
"""

import re
from collections.abc import Collection, Iterable

from doppler_core.errors import InputError
from doppler_core.text.chat.form import Control, Piece

# Characters that Unicode keeps from ever being assigned: no honest text holds all of them.
_MARKS = [chr(point) for point in range(0xFDD0, 0xFDF0)]


def unused_marks(texts: Iterable[str]) -> tuple[str, str]:
    """Two characters that no text holds; InputError where the texts hold them all."""
    used = set().union(*texts)
    free = [mark for mark in _MARKS if mark not in used]
    if len(free) < 2:
        raise InputError(
            "messages: a text holds the characters U+FDD0 to U+FDEF, which are none: take them out"
        )
    return free[0], free[1]


class Shield:
    """For one set of control tokens, by their texts."""

    def __init__(self, control: Collection[str]) -> None:
        spellings = sorted(filter(None, control), key=len, reverse=True)
        any_of = "|".join(map(re.escape, spellings)) or r"(?!)"
        self._spelled = re.compile(any_of)
        self._first = re.compile(rf"(?={any_of}).", re.DOTALL)
        self._longest = len(spellings[0]) if spellings else 0
        self._begins = {spelling[:at] for spelling in spellings for at in range(1, len(spelling))}
        self._ends = {spelling[at:] for spelling in spellings for at in range(1, len(spelling))}

    def put_on(self, text: str, mark: str) -> str:
        """`text` with `mark` where a control token is spelled, or might be together with what comes before or after.

        White space around the text stays around it, for templates that trim.
        """
        body = text.strip()
        if not body:
            return text
        shortest = range(1, min(self._longest, len(body) + 1))
        before = any(body[:size] in self._ends for size in shortest) or self._is_within(body)
        after = any(body[-size:] in self._begins for size in shortest)
        body = self._first.sub(lambda match: match[0] + mark, body)
        left, right = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return left + mark * before + body + mark * after + right

    def take_off(self, rendered: str, mark: str) -> list[Piece]:
        """The control tokens and texts of what a template made, without the marks."""
        pieces: list[Piece] = []
        begin = 0
        for match in self._spelled.finditer(rendered):
            pieces += [rendered[begin : match.start()].replace(mark, ""), Control(match[0])]
            begin = match.end()
        return [*pieces, rendered[begin:].replace(mark, "")]

    def _is_within(self, body: str) -> bool:
        """Whether a text is a part of a control token's inside, such as `bos` of `<bos>`."""
        return len(body) < self._longest and any(end.startswith(body) for end in self._ends)
