"""A canvas for eyes: what to show at each of its positions, and in which shade. Takes the engine's; knows no screen.

Tokens may spell anything: what would move a cursor, turn the direction of a line or have no end is made visible, or cut.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from doppler_plugins.cli.answer import token_text

if TYPE_CHECKING:
    from doppler_core.engine.request import Canvas
    from doppler_core.text.tokenizer import Tokenizer

Shade = Literal["settled", "accepted", "noisy"]

#: A line break as it is shown. In noise its arrow stands alone, or every step would make the lines jump.
BREAK = "↵\n"

_AGAIN = "·"  # a control token beside its like: an end token may fill all that is left of a canvas
_MOST = 64  # characters of a token that are shown
_FORMATS = (
    "Cf"  # joiners, marks of direction: nothing to see, and the second kind turns what stands around it
)
_NO_CHARACTERS = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")


class Name(NamedTuple):
    """How a token is shown, and whether it is one of control, which has a name and no text."""

    text: str
    control: bool = False


Naming = Callable[[int], Name]


@dataclass(frozen=True)
class Spot:
    """A position of a canvas.

    shade: settled = the likeliest token, which the step has left as it was; accepted = drawn from the model's
    probabilities; noisy = random. entropy: of those probabilities, nats.
    """

    text: str
    shade: Shade
    entropy: float


def naming(tokenizer: "Tokenizer | None") -> Naming:
    """How tokens of a model are shown; without a tokenizer their numbers are."""

    @cache
    def name(token: int) -> Name:
        text = visible(token_text(token, tokenizer))
        control = tokenizer is not None and tokenizer.control_name(token) is not None
        return Name(text or f"#{token}", control)

    return name


def spots(canvas: "Canvas", name: Naming) -> list[Spot]:
    """The positions of a canvas. All of one that is done are settled: they are the answer's."""
    found: list[Spot] = []
    before: Name | None = None
    for at, entropy in enumerate(canvas.entropies):
        settled = canvas.done or canvas.settled[at]
        shade: Shade = "settled" if settled else "accepted" if canvas.accepted[at] else "noisy"
        named = name(canvas.ids[at] if settled else canvas.tokens[at])
        text = _AGAIN if named.control and named == before else named.text
        found.append(Spot(text.replace("\n", "") if shade == "noisy" else text, shade, entropy))
        before = named
    return found


def visible(text: str) -> str:
    """What a token spells, with a sign for each character that has none, cut where it is long."""
    shown = plain(text[:_MOST]).replace("\n", BREAK)
    return shown + "…" if len(text) > _MOST else shown


def plain(text: str) -> str:
    """`text` with a sign for each character that has none, line breaks left as they are."""
    return "".join(map(_sign, text))


def _sign(character: str) -> str:
    if character in "\n\t":
        return character.replace("\t", " ")
    kind = unicodedata.category(character)
    if kind == _FORMATS:
        return ""
    if character < " ":
        return chr(0x2400 + ord(character))  # pictures of control characters: ␀ and so on
    return "\N{REPLACEMENT CHARACTER}" if kind in _NO_CHARACTERS else character
