"""Steps out of jobs: prompts in chunks beside the next tokens of others, and groups of steps that run ahead.

Takes jobs in the order they came; tells them their tokens. Jobs join and leave between groups. While a group runs,
the next one is submitted before this one's tokens are read; what it makes beyond an end nobody sees. Masks are made
while the step that needs them runs, and tokens that a mask leaves no choice of are fed without being sampled.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import Executor, StepTables, Ticket
from doppler_core.engine.faults import fault_of
from doppler_core.engine.generation import GenerateJob
from doppler_core.engine.pace import Pace
from doppler_core.engine.prefix import Places
from doppler_core.engine.sampling_states import write_adjustments, write_masks
from doppler_core.engine.seating import fill, let_in, let_out, seated, stepping
from doppler_core.engine.slots import Run
from doppler_core.engine.step_parts import Part, deal, known_rows, next_row, of_nothing, tables
from doppler_core.plan.op import State

_MOMENT = 0.02  # seconds after which a new request, or a cancelled one, is noticed while all others wait

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Loop:
    """How decoding loops: steps of a group at most, groups under way at once."""

    most_steps: int
    most_groups: int

    @property
    def runs_ahead(self) -> bool:
        """Whether steps follow each other without the host."""
        return self.most_steps > 1 or self.most_groups > 1


@dataclass(frozen=True)
class _Flight:
    """Steps under way. goes_on: the device can do further ones with no more from the host."""

    phase: str
    parts: tuple[Part, ...]
    steps: int
    goes_on: bool
    ticket: Ticket
    launched: float


class Decoder:
    """Carries jobs on. states: of the executor's plan; places: what they hold."""

    def __init__(self, executor: Executor, states: Mapping[str, State], places: Places, loop: Loop) -> None:
        self._executor = executor
        self._states = states
        self._places = places
        self._loop = loop
        self._pace = Pace(loop.most_steps)
        self._flights: deque[_Flight] = deque()
        self._landed = 0.0

    def step(self, jobs: Sequence[GenerateJob]) -> None:
        """Submit what can be submitted, and read the oldest steps under way."""
        try:
            with stepping(self._places):
                self._step(jobs)
        except BaseException:
            self._flights.clear()
            raise

    def warmup(self) -> None:
        """Run both phases, and every way to choose a token, unless jobs have done that or are doing it."""
        if self._flights or any(slot.reached for slot in self._places.slots):
            return
        for phase, rows in (("decode", 1), ("prefill", 2)):
            if rows > self._places.longest_run:
                continue
            for active in (("greedy", "advance"), ("draw", "count", "logprobs")):
                if phase == "decode" or "advance" not in active:
                    self._executor.submit(phase, of_nothing(rows, frozenset(active))).result()

    def _step(self, jobs: Sequence[GenerateJob]) -> None:
        let_out(self._places)
        for run in let_in(self._places, jobs):
            _skip(run)
        let_out(self._places)
        if not self._flights:
            self._launch()
        if not self._flights:
            _wait(jobs)  # else those that were let in have ended without a step
            return
        if len(self._flights) < self._loop.most_groups and not self._flights[-1].ticket.ready():
            self._follow()
        self._land(self._flights.popleft())

    def _launch(self) -> None:
        """Submit a step of every run: its next token, or its share of the rows for known ones."""
        running = seated(self._places)
        single = [one for one in running if not one[1].prompt_left and one[1].ahead == 1]
        parts = [next_row(slot, run) for slot, run in single if run.left]
        several = [one for one in running if one not in single]
        rows = self._pace.rows(self._executor.max_rows - len(parts), others_wait=bool(parts))
        wanted = [min(run.ahead, self._places.longest_run) for _, run in several]
        shares = deal(wanted, rows)
        parts += [known_rows(*one, share) for one, share in zip(several, shares, strict=True) if share]
        if not parts:
            return
        goes_on = (
            self._loop.runs_ahead
            and not any(part.known for part in parts)
            and not any(part.run.job.steered for part in parts)
        )
        for part in parts:
            if part.samples:
                write_adjustments(self._executor, self._states, part.slot, part.run)
        phase = "decode" if sum(len(part.ids) for part in parts) == 1 else "prefill"
        self._submit(phase, tables(parts, goes_on), tuple(parts), goes_on)

    def _follow(self) -> None:
        """Submit what comes after the last flight, if that needs nothing that is still under way."""
        last, running = self._flights[-1], [run for _, run in seated(self._places)]
        if last.goes_on:
            if {part.run for part in last.parts} == set(running) and all(run.left for run in running):
                parts = tuple(next_row(part.slot, part.run) for part in last.parts)
                self._submit(last.phase, None, parts, goes_on=True)
        elif not any(run.under_way for run in running) and any(run.ahead for run in running):
            self._launch()

    def _submit(self, phase: str, step: StepTables | None, parts: tuple[Part, ...], goes_on: bool) -> None:
        steps = min(self._pace.steps(), *(part.run.left for part in parts)) if goes_on else 1
        masked = [(part.slot, part.run) for part in parts if part.samples and part.run.job.masked]
        for part in parts:
            self._places.advance(part.slot, part.position + len(part.ids) + steps - 1)
        launched = time.perf_counter()
        meanwhile = partial(write_masks, self._executor, masked) if masked else None
        ticket = self._executor.submit(phase, step, steps, meanwhile)
        self._flights.append(_Flight(phase, parts, steps, goes_on, ticket, launched))
        for part in parts:
            run = part.run
            if not goes_on:
                fill(self._places, part)
            run.fed += len(part.ids) + steps - 1
            run.made += steps * part.samples
            run.under_way += steps * part.samples

    def _land(self, flight: _Flight) -> None:
        """Read what a flight made, and hand it out."""
        outputs = flight.ticket.result()
        if any(part.slot.run is part.run for part in flight.parts):
            self._measure(flight)  # else nobody has waited for it, perhaps for hours
        for index, part in enumerate(flight.parts):
            if part.position + len(part.ids) >= len(part.run.job.ids):
                part.run.job.prompt_done()
            for step in range(flight.steps if part.samples else 0):
                words = outputs["logprobs"][step, index] if "logprobs" in outputs else None
                self._hand_out(part, int(outputs["sampled"][step, index, 0]), words, flight.goes_on)

    def _hand_out(self, part: Part, token: int, logprobs: Words | None, went_on: bool) -> None:
        slot, run = part.slot, part.run
        if slot.run is not run:
            return  # surplus of a job that has left
        if went_on:
            self._places.fill(slot, run.ids[-1:])
        if (fault := fault_of(token)) is not None:
            run.job.fail(fault)
            self._places.spoil(slot)
        run.land(token)
        try:
            run.job.accept(token, logprobs)
        except BaseException as error:  # noqa: BLE001 - of its mask, the requester's own code: a panic is no Exception
            run.job.fail(error)
        _skip(run)

    def _measure(self, flight: _Flight) -> None:
        now = time.perf_counter()
        seconds = now - max(flight.launched, self._landed)
        self._landed = now
        if any(part.known for part in flight.parts):
            self._pace.note_rows(sum(len(part.ids) for part in flight.parts), seconds)
        else:
            self._pace.note_steps(flight.steps, seconds)


def _wait(jobs: Sequence[GenerateJob]) -> None:
    """Until one of those that wait for something can go on, or some have been given up meanwhile."""
    awaited = [made for job in jobs if (made := job.waits_for) is not None]
    if awaited:
        wait(awaited, _MOMENT, FIRST_COMPLETED)


def _skip(run: Run) -> None:
    """Tokens of a run that need not be sampled, as its mask allows no others."""
    try:
        run.learn(run.job.skip())
    except BaseException as error:  # noqa: BLE001 - the requester's own code: a panic is no Exception
        run.job.fail(error)
