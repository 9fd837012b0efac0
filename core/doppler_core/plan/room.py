"""How much a plan makes room for: tokens of a sequence, sequences kept at once, rows of a step. It knows no model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """What a lowering sizes its tables, states and steps by.

    context_length: the most tokens of a sequence, prompt and answer together.
    slots: sequences whose keys and values are kept at the same time. chunk: the most rows of a step.
    snapshots: copies of sliding layers' keys and values that are kept beside those of the slots.
    memory: bytes that weights may take on the device; None = they are known to fit, or nobody knows.
    """

    context_length: int
    slots: int
    chunk: int
    snapshots: int = 0
    memory: int | None = None
