"""One question of the demo, what was done for it, and the answer. It prints nothing."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    """A question, what was found, called or drafted for it, and the answer."""

    question: str
    steps: tuple[str, ...]
    answer: str


def lines(exchanges: Sequence[Exchange]) -> list[str]:
    """The exchanges as the demo prints them."""
    return [
        line
        for one in exchanges
        for line in (f"  {one.question}", *(f"    {step}" for step in one.steps), f"    = {one.answer}")
    ]
