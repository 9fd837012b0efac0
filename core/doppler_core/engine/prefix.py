"""Where a prompt's begin has been run already, and how a place comes to hold it: in place, or by copying on the device.

Takes token ids; gives a slot that holds their longest known begin. The last token of a prompt is always run again, as
the next one is chosen from its logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from doppler_core.device.executor import Executor
from doppler_core.engine.slots import Layout, Slot, common_length

_COPY = 15  # tokens that are run as fast as a begin is copied


@dataclass(eq=False)
class Snapshot:
    """A copy of a slot's rings in a place of their own: right for the first `length` tokens of what the slot holds."""

    place: int
    slot: Slot | None = None
    length: int = 0
    reached: int = 0
    used: int = 0


@dataclass(frozen=True, eq=False)
class _Source:
    """`length` tokens of a slot's full layers, and the rings for them: the slot's own or a snapshot's."""

    slot: Slot
    length: int
    snapshot: Snapshot | None = None

    @property
    def rings_place(self) -> int:
        return self.slot.place if self.snapshot is None else self.snapshot.place

    @property
    def reached(self) -> int:
        return self.slot.reached if self.snapshot is None else self.snapshot.reached


class Places:
    """The slots of an executor, the snapshots beside them, and what they hold.

    longest_run: the most rows of one slot in a step.
    """

    def __init__(self, executor: Executor, layout: Layout, slots: int) -> None:
        self._executor = executor
        self._layout = layout
        self._clock = 0
        self.slots = [Slot(place) for place in range(slots)]
        self.longest_run = min(executor.max_rows, layout.longest_run or executor.max_rows)
        self._snapshots = [Snapshot(slots + number) for number in range(layout.snapshots(slots))]

    def free(self) -> list[Slot]:
        """The slots without a run, the one that is missed least first: an empty one, else the longest unused."""
        free = [slot for slot in self.slots if slot.run is None]
        return sorted(free, key=lambda slot: (bool(slot.content), slot.used))

    def take(self, ids: Sequence[int]) -> Slot:
        """A free slot that now holds as many of the first of `ids` as could be had; there must be a free one."""
        victim = self.free()[0]
        source = self._best(ids, victim)
        if source is None:
            self._cut(victim, 0)
            return victim
        slot = source.slot if _serves_in_place(source, victim) else victim
        if slot is not source.slot:
            self._copy_whole(source.slot.place, slot.place, source.length)
        if source.rings_place != slot.place:
            self._copy_rings(source.rings_place, slot.place, source.reached)
        reached, kept = source.reached, source.slot.content[: source.length]
        self._cut(slot, source.length if slot is source.slot else 0)
        slot.content, slot.reached = kept, reached
        if source.snapshot is not None:
            source.snapshot.used = self._tick()
        return slot

    def advance(self, slot: Slot, reached: int) -> None:
        """A step is about to write the slot's positions up to `reached` - 1: marks that it makes unreachable get a
        snapshot first."""
        reached = max(reached, slot.reached)
        lost = [mark for mark in slot.marks if not self._layout.intact(mark, reached)]
        if self._snapshots and any(self._layout.intact(mark, slot.reached) for mark in lost):
            snapshot = min(self._snapshots, key=lambda one: (one.slot is not None, one.used))
            self._copy_rings(slot.place, snapshot.place, slot.reached)
            snapshot.slot, snapshot.length = slot, len(slot.content)
            snapshot.reached, snapshot.used = slot.reached, self._tick()
        slot.marks = [mark for mark in slot.marks if mark not in lost]
        slot.reached = reached

    def fill(self, slot: Slot, ids: Sequence[int], is_end: bool = False) -> None:
        """The slot now holds these tokens too; `is_end`: they end a prompt, which a later one may begin with."""
        slot.content += ids
        if is_end and len(slot.content) > 1:
            slot.marks.append(len(slot.content) - 1)

    def spoil(self, slot: Slot) -> None:
        """What the slot holds is wrong."""
        self._cut(slot, 0)

    def leave(self, slot: Slot) -> None:
        """The slot's run is over; what it holds stays."""
        slot.run = None
        slot.used = self._tick()

    def forget(self) -> None:
        """Nothing holds anything any more."""
        for slot in self.slots:
            slot.run = None
            self._cut(slot, 0)

    def _best(self, ids: Sequence[int], victim: Slot) -> _Source | None:
        """The begin that saves most, if there is one that can be gone on from."""
        most = len(ids) - 1
        common = {slot: min(common_length(slot.content, ids), most) for slot in self.slots}
        found = [_Source(slot, length) for slot, length in common.items()]
        for one in self._snapshots:
            if one.slot is not None:
                found.append(_Source(one.slot, min(common[one.slot], one.length), one))
        worth = {one: _worth(one, victim) for one in found if self._layout.intact(one.length, one.reached)}
        best = max(worth, key=lambda one: (worth[one], one.snapshot is None), default=None)
        return best if best is not None and worth[best] > 0 else None

    def _cut(self, slot: Slot, length: int) -> None:
        slot.cut(length)
        for snapshot in self._snapshots:
            if snapshot.slot is slot:
                snapshot.length = min(snapshot.length, length)
                if not snapshot.length:
                    snapshot.slot = None

    def _copy_rings(self, source: int, target: int, reached: int) -> None:
        for ring in self._layout.rings:
            capacity = ring.state.capacity
            self._executor.copy_state(
                ring.state.name, source * capacity, target * capacity, min(reached, capacity)
            )

    def _copy_whole(self, source: int, target: int, length: int) -> None:
        for state in self._layout.whole if length else ():
            self._executor.copy_state(state.name, source * state.capacity, target * state.capacity, length)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def _serves_in_place(source: _Source, victim: Slot) -> bool:
    """A conversation that shares only its begin with the prompt is left alone, as long as another slot can be had."""
    slot = source.slot
    return slot is victim or (slot.run is None and 2 * source.length >= len(slot.content))


def _worth(source: _Source, victim: Slot) -> int:
    """Tokens that need not be run, less those that could be run in the time of a copy."""
    return source.length - (0 if _serves_in_place(source, victim) else _COPY)
