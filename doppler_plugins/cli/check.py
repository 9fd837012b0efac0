"""What one check of `doctor` found.

A `note` is worth knowing and needs no remedy; a `problem` has one.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and the remedy where it is a problem."""

    name: str
    status: Literal["ok", "note", "problem"]
    detail: str
    remedy: str = ""
