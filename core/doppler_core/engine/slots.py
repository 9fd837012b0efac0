"""The places of a plan's states: which tokens lie where, and which of them are still whole. Pure; it moves no data.

A state of a full layer holds every position of its places. One of a sliding layer is a ring: a position is gone as
soon as one that lies `capacity` further on is written, be it a token that turned out to be surplus.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from doppler_core.engine.generation import GenerateJob
from doppler_core.plan.op import Plan, State


@dataclass(frozen=True)
class Ring:
    """The keys and values of a sliding layer: a row at position p reads p - window + 1 .. p."""

    state: State
    window: int


@dataclass(frozen=True)
class Layout:
    """The states of a plan that hold keys and values: of full layers, and of sliding ones."""

    whole: tuple[State, ...]
    rings: tuple[Ring, ...]

    @property
    def longest_run(self) -> int | None:
        """The most rows of a sequence in one step, so that all have a place and overwrite nothing that is still read."""
        rings = (ring.state.capacity - ring.window + 1 for ring in self.rings)
        return min((*rings, *(state.capacity for state in self.whole)), default=None)

    def snapshots(self, slots: int) -> int:
        """How many copies of rings there is room for beside those of `slots` sequences."""
        return min((ring.state.places - slots for ring in self.rings), default=0)

    def intact(self, position: int, reached: int) -> bool:
        """Whether a row at `position` finds all it reads, where positions up to `reached` - 1 have been written."""
        return position == 0 or all(
            max(0, position - ring.window + 1) + ring.state.capacity >= reached for ring in self.rings
        )


def layout(plan: Plan, context_length: int) -> Layout:
    """The layout of a plan's states, as its `cached_attention` ops read them. A sliding layer's that has room for the
    whole context is no ring."""
    windows: dict[State, int] = {}
    for op in plan.ops():
        if op.meaning == "cached_attention":
            state = next(value for value in op.inputs if isinstance(value, State))
            windows[state] = int(op.params["window"]) if state.capacity < context_length else 0
    return Layout(
        tuple(state for state, window in windows.items() if not window),
        tuple(Ring(state, window) for state, window in windows.items() if window),
    )


@dataclass(eq=False)
class Run:
    """A job at its place.

    ids: its prompt and what came after, as far as it is known here. fed: positions that steps have taken; where they
    run ahead, more than are known. made: tokens after the prompt, those that steps under way sample among them.
    under_way: how many those are. adjusted: whether its place holds what adjusts its logits.
    """

    job: GenerateJob
    ids: list[int]
    fed: int
    made: int = 0
    under_way: int = 0
    adjusted: bool = False

    @property
    def prompt_left(self) -> int:
        """Tokens of the prompt that no step has taken."""
        return max(0, len(self.job.ids) - self.fed)

    @property
    def ahead(self) -> int:
        """Known tokens that no step has taken."""
        return len(self.ids) - self.fed

    @property
    def left(self) -> int:
        """Tokens that may still be made, beyond those under way."""
        return self.job.limit - self.made

    def land(self, token: int) -> None:
        """A token came back that a step sampled."""
        self.ids.append(token)
        self.under_way -= 1

    def learn(self, tokens: Sequence[int]) -> None:
        """Tokens follow that no step has to sample."""
        self.ids += tokens
        self.made += len(tokens)


@dataclass(eq=False)
class Slot:
    """One sequence's place in the states.

    content: tokens that lie there, from position 0 on. reached: the end of all positions written since it was empty.
    marks: positions that a later request may want to go on from. used: when it was last in use, by a clock of turns.
    """

    place: int
    content: list[int] = field(default_factory=list)
    reached: int = 0
    run: Run | None = None
    marks: list[int] = field(default_factory=list)
    used: int = 0

    def cut(self, length: int) -> None:
        """Forget the tokens from position `length` on."""
        del self.content[length:]
        self.marks = [mark for mark in self.marks if mark < length]
        if length == 0:
            self.reached = 0


def common_length(content: Sequence[int], ids: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    most = min(len(content), len(ids))
    if list(content[:most]) == list(ids[:most]):
        return most
    return next(at for at in range(most) if content[at] != ids[at])
