"""A regular expression as Python's `re` reads it, written so that llguidance reads the same: takes one, gives its branches.

Where readers differ, what is allowed is what every one of them allows: Python, JavaScript, and Rust, which is pydantic's;
or Python alone. What can't be written so is a Refused that says what it is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DEEP = 100  # groups within each other
_DIGITS = 6  # of how often something is repeated
_LONGEST = 20_000  # characters that a pattern may ask for: a mask looks at each of them
# Whoever checks the text may know fewer digits, letters or spaces than the library does, or more: what is allowed is one
# that everybody knows, what is forbidden is all that anybody does.
_FEW = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\r\f\v"}
_MANY = {
    "d": r"\p{Nd}",
    "w": r"\p{Alphabetic}\p{M}\p{N}\p{Pc}\p{Join_Control}",
    "s": r"\p{White_Space}\x1c-\x1f\x{feff}",
}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMBERED = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xu]\{([0-9a-fA-F]{1,6})\})"
)
_NAMED_SET = re.compile(r"\\[pP](?:\{[^{}]*\}|[A-Z])")
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_GROUP = re.compile(r"\((?:\?(?::|P?<(?![=!])[^>]*>|([ims]+):))?(?!\?)")
_REPEAT = re.compile(r"[*+?]|\{(?!\})([0-9]*)(?:(,)([0-9]*))?\}")
# Of Rust's classes; of no meaning to Python, which warns that they may get one.
_SET_SYNTAX = re.compile(r"\[|&&|--|~~")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_RANGE = re.compile(r"-[^\]]")
_ANCHORS = "anchors but at its ends"


@dataclass(frozen=True)
class Readers:
    """Who has to agree on a text. few: what all of them take for a digit, a letter, a space. any_one: for any character
    of a line."""

    few: Mapping[str, str]
    any_one: str


EVERYBODY = Readers(_FEW, r"[^\n\r\x{2028}\x{2029}]")
PYTHON = Readers({"d": r"\p{Nd}", "w": r"\p{L}\p{Nd}_", "s": r"\p{White_Space}"}, r"[^\n]")


class Refused(Exception):
    """What can't be held, in a line; it becomes an error of ours where the pattern's place is known."""


@dataclass(frozen=True)
class Branch:
    """One of the alternatives at the top: what it looks for, and whether at the begin of a text, at its end.
    least: characters that it asks for."""

    begins: bool
    body: str
    ends: bool
    least: int


@dataclass(frozen=True)
class Expression:
    """branches: its alternatives. is_disputed: it holds what is syntax to Rust alone, and means something else there."""

    branches: tuple[Branch, ...]
    is_disputed: bool


def read_expression(pattern: str, readers: Readers = EVERYBODY) -> Expression:
    """The expression of a pattern."""
    reader = _Reader(pattern, readers)
    branches = reader.expression()
    return Expression(tuple(branches), reader.is_disputed)


class _Reader:
    def __init__(self, pattern: str, readers: Readers) -> None:
        self._pattern = pattern
        self._readers = readers
        self._at = 0
        self._deep = 0
        self._flags: frozenset[str] = frozenset()
        self.is_disputed = False

    def expression(self) -> list[Branch]:
        if flags := self._match(_FLAGS):
            self._flags = frozenset(flags[1])
            if unknown := self._flags & {"L", "x"}:
                raise Refused(f"the flag {min(unknown)}: write it without")
            if "a" in self._flags:
                self._readers = Readers(_FEW, self._readers.any_one)
        branches = self._branches()
        if self._at < len(self._pattern):
            raise Refused("a ) that closes nothing")
        return branches

    def _branches(self) -> list[Branch]:
        found = self._branch()
        while self._take("|"):
            found += self._branch()
        return found

    def _branch(self) -> list[Branch]:
        begins = ends = False
        items: list[_Item] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if self._take("^", r"\A"):
                if items or ends:
                    raise Refused(_ANCHORS)
                begins = True
            elif self._take("$", r"\Z", r"\z"):
                ends = True
            elif ends:
                raise Refused(_ANCHORS)
            else:
                items.append(self._item())
        if len(items) == 1 and items[0].branches:
            return [
                Branch(begins or one.begins, one.body, ends or one.ends, one.least)
                for one in items[0].branches
            ]
        if any(item.is_anchored for item in items):
            raise Refused(_ANCHORS)
        least = sum(item.least for item in items)
        return [Branch(begins, "".join(item.text for item in items), ends, least)]

    def _item(self) -> "_Item":
        """What stands for itself, with how often it may come."""
        item = self._once()
        if repeat := self._match(_REPEAT):
            if item.is_anchored:
                raise Refused(_ANCHORS)
            self._take("?")  # of a text as a whole it says nothing
            if self._match(_REPEAT) or self._take("+"):
                raise Refused(
                    f"{repeat[0]} is repeated itself, or possessive: put what it repeats in a group"
                )
            text, least = item.text + _times(repeat), item.least * _least(repeat)
            if least > _LONGEST:
                raise Refused(
                    f"{repeat[0]} asks for {least} characters at least, and {_LONGEST} are the most: repeat it less"
                )
            return _Item(text, least)
        return item

    def _once(self) -> "_Item":
        if self._match(_REPEAT):
            raise Refused("there is nothing to repeat")
        if self._pattern[self._at] == "(":
            return self._group()
        if self._take("["):
            return _Item(self._class(), 1)
        if self._take("."):
            return _Item("(?s:.)" if "s" in self._flags else self._readers.any_one, 1)
        is_set, text = self._character()
        return _Item(f"[{self._set(text)}]" if is_set else self._cased(text), 1)

    def _group(self) -> "_Item":
        begin = self._match(_GROUP)
        if begin is None:
            raise Refused(
                f"{self._pattern[self._at : self._at + 4]}: look-around, or another group of no meaning here"
            )
        outer, self._flags = self._flags, self._flags | frozenset(begin[1] or "")
        self._deep += 1
        if self._deep > _DEEP:
            raise Refused(f"groups within each other, more than {_DEEP} deep")
        branches = self._branches()
        if not self._take(")"):
            raise Refused("a ( that is not closed")
        self._flags = outer
        self._deep -= 1
        text = f"(?:{'|'.join(one.body for one in branches)})"
        return _Item(text, min(one.least for one in branches), tuple(branches))

    def _class(self) -> str:
        """A class of characters, after its bracket."""
        begin, negated = self._at, self._take("^")
        if negated and "i" in self._flags:
            raise Refused("a class of what is not allowed, in any case of letters: name both cases")
        parts: list[str] = []
        is_first = True
        while is_first or not self._take("]"):
            if self._at == len(self._pattern):
                raise Refused("a [ that is not closed")
            is_first = False
            is_set, low = self._character(within_class=True)
            if is_set:
                parts.append(self._set(low, negated))
            elif self._look(_RANGE):
                self._at += 1
                is_set, high = self._character(within_class=True)
                if is_set or high < low:
                    raise Refused(f"a range from {low!r} to {high!r}")
                parts += _range(low, high, "i" in self._flags)
            else:
                parts += _range(low, low, "i" in self._flags)
        self.is_disputed |= bool(_SET_SYNTAX.search(_ESCAPED.sub("", self._pattern[begin : self._at - 1])))
        return f"[{'^' * negated}{''.join(parts)}]"

    def _set(self, name: str, negated: bool = False) -> str:
        """What a short form of many characters stands for within a class."""
        if len(name) > 1:
            return name
        if name.islower():
            return _MANY[name] if negated else self._readers.few[name]
        known = self._readers.few if negated else _MANY
        return f"[^{known[name.lower()]}]"

    def _character(self, within_class: bool = False) -> tuple[bool, str]:
        """A character, or the name of a set of many, which is told by True."""
        one = self._pattern[self._at]
        if one != "\\":
            self._at += 1
            return False, one
        if named := self._match(_NAMED_SET):
            return True, named[0]
        if numbered := self._match(_NUMBERED):
            return False, _numbered(numbered)
        escaped = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if escaped.lower() in _FEW and escaped:
            return True, escaped
        if escaped in _CONTROLS and escaped:
            return False, _CONTROLS[escaped]
        if escaped == "b" and within_class:
            return False, "\b"
        if not escaped or (escaped.isascii() and escaped.isalnum()):
            raise Refused(f"\\{escaped}: a back-reference, look-around, or what only some know")
        return False, escaped

    def _cased(self, character: str) -> str:
        """A character by itself."""
        if "i" in self._flags and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return _written(character)

    def _look(self, what: re.Pattern[str]) -> bool:
        return what.match(self._pattern, self._at) is not None

    def _match(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self._pattern, self._at)
        self._at = self._at if found is None else found.end()
        return found

    def _take(self, *texts: str) -> bool:
        for text in texts:
            if self._pattern.startswith(text, self._at):
                self._at += len(text)
                return True
        return False


@dataclass(frozen=True)
class _Item:
    """least: characters that it asks for. branches: of a group that is not repeated."""

    text: str
    least: int
    branches: tuple[Branch, ...] = ()

    @property
    def is_anchored(self) -> bool:
        """Whether it holds for some places of a text alone."""
        return any(one.begins or one.ends for one in self.branches)


def _times(repeat: re.Match[str]) -> str:
    """How often, as Rust writes it, where `{,3}` says nothing."""
    least, comma, most = repeat.groups()
    if least is None:
        return repeat[0]
    if max(map(len, (least, most or ""))) > _DIGITS:
        raise Refused(
            f"{repeat[0][:20]}: more than {10**_DIGITS - 1} times: repeat it less, or without an end, as {{1,}}"
        )
    if most and int(most) < int(least or 0):
        raise Refused(f"{repeat[0]}: the least is more than the most")
    return f"{{{int(least or 0)}{comma or ''}{most or ''}}}"


def _least(repeat: re.Match[str]) -> int:
    """How often at least."""
    if repeat[1] is None:
        return int(repeat[0] == "+")
    return int(repeat[1] or 0)


def _numbered(match: re.Match[str]) -> str:
    number = int(next(filter(None, match.groups())), 16)
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise Refused(f"{match[0]} is no character")
    return chr(number)


def _range(low: str, high: str, any_case: bool) -> list[str]:
    """Characters of a class, and where any case will do also the other one of A to Z."""
    found = [_written(low) + (f"-{_written(high)}" if high != low else "")]
    for first, last in ("az", "AZ") if any_case else ():
        begin, end = max(low, first), min(high, last)
        if begin <= end:
            found.append(f"{begin.swapcase()}-{end.swapcase()}")
    return found


def _written(character: str) -> str:
    """A character as Rust and Python write it, in a class and without one."""
    if character.isalnum() or not character.isascii() or character in "_<>":
        return character
    return rf"\x{ord(character):02x}" if character < " " or character == "\x7f" else f"\\{character}"
