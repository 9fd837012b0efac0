"""Words, numbers and strings that made-up requests and passages are filled with.

Takes a seeded generator and which half of the vocabulary to draw from, gives values. A word is held out by its
checksum, so that no held-out word, made-up ones too, ever occurs in training. Knows nothing of tools or tokens.
"""

import random
import zlib
from pathlib import Path

Value = str | int | float | bool


def listed(words: str) -> tuple[str, ...]:
    """Words with spaces between them."""
    return tuple(words.split())


VERBS = listed(
    "get find set send book make add remove list check start stop open close count read write search order create "
    "update cancel show play call"
)
KEYS = listed(
    "name city size amount level count title color code room user date price limit speed mode topic item label target "
    "source path unit volume width height weight age year number query text first_name last_name room_number "
    "max_price start_time group owner rate depth floor seat zone model brand"
)
# What a request says besides its values: as a value, it could be read in two ways.
_SAID = {*VERBS, *listed(" ".join(KEYS).replace("_", " ")), *listed("the and with for use need want result")}
_WORDS = [
    word for word in listed((Path(__file__).parent / "words.txt").read_text("utf-8")) if word not in _SAID
]
_ONSETS = listed("b c d f g h j k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr")
_VOWELS = listed("a e i o u ai ea oo")
_CODAS = ("", "n", "r", "s", "x", "l", "m", "t", "k")
_CODE = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz0123456789"
_HELD_OUT_OF = 8  # one word of so many is held out
# Words of training put together of halves of others: pieces that never stood side by side are what unseen words are.
_SPLICED = 0.3


class Values:
    """Draws values of one half of the vocabulary; the same seed draws the same values."""

    def __init__(self, rng: random.Random, held_out: bool = False, level: int = 2) -> None:
        self.rng, self.held_out, self.level = rng, held_out, level

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def word(self, made_up: float = 0.3) -> str:
        """A word in lower case, made up with that probability; in training, some are put together of two halves."""
        draw = self._made_up if self.chance(made_up) else lambda: self.rng.choice(_WORDS)
        if not self.held_out and self.level > 1 and self.chance(_SPLICED):
            draw = self._spliced
        while is_held_out(word := draw()) != self.held_out or word in _SAID:
            pass
        return word

    def name(self, made_up: float = 0.3) -> str:
        return self.word(made_up).capitalize()

    def words(self, least: int, most: int) -> str:
        return " ".join(self.word() for _ in range(self.rng.randint(least, most)))

    def integer(self) -> int:
        digits = self.rng.randint(1, 5 if self.level > 1 else 3)
        return self.rng.randint(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1)

    def number(self) -> float:
        """One or two places after the point, the last one never 0: it is written as it is read."""
        tenths = self.rng.randint(0, 10 ** self.rng.randint(1, 3))
        text = f"{tenths}.{self.rng.choice(('', str(self.rng.randint(0, 9))))}{self.rng.randint(1, 9)}"
        return float(text) * (-1 if self.chance(0.1) else 1)

    def code(self) -> str:
        return "".join(self.rng.choice(_CODE) for _ in range(self.rng.randint(3, 7)))

    def string(self) -> tuple[str, bool]:
        """A string, and whether a request has to put it in quotation marks."""
        kind = self.rng.random()
        if self.level == 0 or kind < 0.32:
            return self.word(), False
        if kind < 0.55:
            return self.name(), False
        if kind < 0.66:
            return f"{self.name()} {self.name()}", False
        if kind < 0.77:
            return self.code(), False
        if kind < 0.83:
            return self.moment(), False
        text = self.words(2, 4)
        return (text.capitalize() + self.rng.choice(("", ".", "!", "?")) if self.chance(0.4) else text), True

    def moment(self) -> str:
        """A date, a time or an address."""
        draw = self.rng.randint
        kind = self.rng.randrange(3)
        if kind == 0:
            return f"{draw(1990, 2039)}-{draw(1, 12):02}-{draw(1, 28):02}"
        if kind == 1:
            return f"{draw(0, 23)}:{draw(0, 59):02}"
        return f"{self.word()}@{self.word()}.{self.rng.choice(('com', 'org', 'net'))}"

    def of(self, kind: str) -> tuple[Value, bool]:
        """A value of a JSON type, and whether a request has to put it in quotation marks."""
        if kind == "integer":
            return self.integer(), False
        if kind == "number":
            return self.number(), False
        if kind == "boolean":
            return self.chance(0.5), False
        return self.string()

    def key(self, made_up: float = 0.15, known: float = 0.6) -> str:
        """A parameter's name: a usual one, or any word."""
        return self.rng.choice(KEYS) if self.chance(known) else self.word(made_up)

    def _made_up(self) -> str:
        syllables = (
            self.rng.choice(_ONSETS) + self.rng.choice(_VOWELS) for _ in range(self.rng.randint(1, 3))
        )
        return "".join(syllables) + self.rng.choice(_CODAS)

    def _spliced(self) -> str:
        begin, end = self.rng.choice(_WORDS), self.rng.choice(_WORDS)
        return begin[: self.rng.randint(1, len(begin))] + end[self.rng.randint(0, len(end) - 1) :]


def is_held_out(word: str) -> bool:
    """Whether a word is kept for the tests."""
    return zlib.crc32(word.encode()) % _HELD_OUT_OF == 0


def said(value: Value) -> str:
    """A value as people write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
