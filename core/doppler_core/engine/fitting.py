"""How much room a model gets where memory is short: fewer sequences at once first, then shorter ones."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room

logger = logging.getLogger("doppler_plugins")

_LEAST_CONTEXT = 512  # tokens: with less, few prompts would fit


@dataclass(frozen=True)
class Fixed:
    """What was asked for, and is not lowered."""

    slots: bool = False
    context_length: bool = False


def rooms(wanted: Room, fixed: Fixed) -> Iterator[Room]:
    """The room that is wanted, then less and less."""
    yield wanted
    room = wanted
    while room.slots > 1 and not fixed.slots:
        room = replace(room, slots=room.slots - 1, snapshots=min(room.snapshots, room.slots - 1))
        yield room
    while room.context_length > _LEAST_CONTEXT and not fixed.context_length:
        room = replace(room, context_length=max(_LEAST_CONTEXT, room.context_length // 2))
        yield room


def fit(
    wanted: Room, fixed: Fixed, lower: Callable[[Room], Plan], need: Callable[[Plan], int], left: int | None
) -> tuple[Room, Plan]:
    """The largest room whose plan needs no more than `left` bytes (None: as many as it likes), and that plan.

    The least room where even that needs more: whoever reserves the memory says so.
    """
    room, plan = wanted, lower(wanted)
    if left is None or need(plan) <= left:
        return room, plan
    if plan.states():  # else nothing is kept for each sequence
        for room in rooms(wanted, fixed):
            plan = lower(room)
            if need(plan) <= left:
                break
    if room != wanted and need(plan) <= left:  # else the memory's own error says it
        logger.warning(
            "%s: %d MB of memory are left, so it keeps %s of %d tokens in place of %d of %d; "
            "close other engines, or set slots or context_length",
            plan.model,
            max(left, 0) // 10**6,
            "1 sequence" if room.slots == 1 else f"{room.slots} sequences",
            room.context_length,
            wanted.slots,
            wanted.context_length,
        )
    return room, plan
