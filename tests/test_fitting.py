"""Less room where memory is short: sequences go first, then their length, never what was asked for."""

import logging

import pytest

from doppler_core.engine.fitting import Fixed, fit, rooms
from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room
from tests.causal_fakes import Size, plan

WANTED = Room(8192, 4, 256, snapshots=4)


def sizes(fixed: Fixed) -> list[tuple[int, int, int]]:
    return [(room.slots, room.snapshots, room.context_length) for room in rooms(WANTED, fixed)]


def test_sequences_are_given_up_before_their_length() -> None:
    slots = [(4, 4), (3, 3), (2, 2), (1, 1)]
    assert sizes(Fixed()) == [(*one, 8192) for one in slots] + [
        (1, 1, size) for size in (4096, 2048, 1024, 512)
    ]


def test_what_was_asked_for_stays() -> None:
    assert sizes(Fixed(slots=True)) == [(4, 4, size) for size in (8192, 4096, 2048, 1024, 512)]
    assert [slots for slots, *_ in sizes(Fixed(context_length=True))] == [4, 3, 2, 1]
    assert sizes(Fixed(True, True)) == [(4, 4, 8192)]


def need(lowered: Plan) -> int:
    return sum(state.bytes(0, 0) for state in lowered.states().values())


def lower(room: Room) -> Plan:
    return plan(Size(room.context_length, 512, room.chunk, room.slots, room.snapshots))


@pytest.mark.parametrize(
    ("left", "slots", "context_length"),
    [
        (None, 4, 8192),
        (10**9, 4, 8192),
        (150_000, 3, 8192),
        (60_000, 1, 8192),
        (20_000, 1, 2048),
        (1, 1, 512),
    ],
)
def test_the_largest_room_that_fits_is_taken_and_a_smaller_one_said(
    left: int | None, slots: int, context_length: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "doppler_plugins"):
        room, lowered = fit(WANTED, Fixed(), lower, need, left)
    assert (room.slots, room.context_length) == (slots, context_length)
    assert lowered.largest.sequences == slots
    fits = left is None or need(lowered) <= left
    assert fits or left == 1
    kept = "1 sequence" if slots == 1 else f"{slots} sequences"
    said = f"{kept} of {context_length} tokens in place of 4 of 8192"
    # Where even the least room is too large, the memory's own error follows and says it.
    assert (said in caplog.text) == (room != WANTED and fits)
    assert bool(caplog.text) == (room != WANTED and fits)


def test_a_plan_that_keeps_nothing_is_lowered_once() -> None:
    calls: list[Room] = []

    def stateless(room: Room) -> Plan:
        calls.append(room)
        return Plan("embedding", {}, {})

    assert fit(WANTED, Fixed(), stateless, lambda _: 100, 1)[0] == WANTED
    assert calls == [WANTED]
