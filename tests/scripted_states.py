"""What scripted executors keep of each sequence: tokens in place of keys and values, in a full layer and in a sliding one.

Every token lies there with its position, so that what is read and was never written, or is gone, shows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.plan.op import State

EMPTY = 0xFFFFFFFF
FULL, SLIDING = "layers.0.kv", "layers.1.kv"

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Size:
    """Of the model: a full layer and a sliding one."""

    context: int = 96
    window: int = 8
    chunk: int = 6
    slots: int = 4
    snapshots: int = 4

    @property
    def ring(self) -> int:
        return min(self.context, self.window + self.chunk)

    def states(self) -> dict[int, State]:
        """By window, 0 = of the full layer."""
        places = self.slots + (self.ring < self.context) * self.snapshots
        return {
            0: State(FULL, (self.slots * self.context, 1), "u32", self.context),
            self.window: State(SLIDING, (places * self.ring, 1), "u32", self.ring),
        }


class ScriptedStates:
    """The states of an executor, and its part of the executor's contract."""

    def __init__(self, size: Size, states: Iterable[State]) -> None:
        self._size = size
        self.states: dict[str, npt.NDArray[Any]] = {
            state.name: np.full(state.shape, 0, {"u32": np.uint32, "f32": np.float32}[state.dtype])
            for state in states
        }
        self._positions = {name: np.full(len(rows), EMPTY, np.uint32) for name, rows in self.states.items()}
        self.copies = 0

    def write_state(self, name: str, row: int, values: npt.NDArray[Any]) -> None:
        assert values.dtype == self.states[name].dtype
        assert row + len(values) <= len(self.states[name])
        self.states[name][row : row + len(values)] = values

    def read_state(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        assert row + count <= len(self.states[name])
        return self.states[name][row : row + count].copy()

    def copy_state(self, name: str, source: int, target: int, count: int) -> None:
        assert 0 < count <= min(len(self.states[name]) - source, len(self.states[name]) - target)
        assert abs(source - target) >= count
        self.copies += 1
        for rows in (self.states[name], self._positions[name]):
            rows[target : target + count] = rows[source : source + count]

    def store(self, place: int, rows: Words) -> None:
        """Rows of the step's table, of one sequence."""
        for name, capacity in ((FULL, self._size.context), (SLIDING, self._size.ring)):
            at = place * capacity + rows[:, 1] % capacity
            assert len(set(at.tolist())) == len(at), "a step overwrites its own rows"
            self.states[name][at, 0] = rows[:, 0]
            self._positions[name][at] = rows[:, 1]

    def seen(self, place: int, position: int) -> list[list[int]]:
        """The tokens that a row reads in each layer; AssertionError where another position lies there."""
        size = self._size
        return [
            self._read(FULL, size.context, place, np.arange(position + 1)),
            self._read(
                SLIDING, size.ring, place, np.arange(max(0, position + 1 - size.window), position + 1)
            ),
        ]

    def _read(self, name: str, capacity: int, place: int, positions: npt.NDArray[Any]) -> list[int]:
        at = place * capacity + positions % capacity
        assert self._positions[name][at].tolist() == positions.tolist(), f"{name}: a position is not there"
        tokens: list[int] = self.states[name][at, 0].tolist()
        return tokens
