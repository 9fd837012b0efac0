"""Steps out of jobs that make canvases: prompts and finished canvases are encoded, canvases denoised together.

Takes jobs in the order they came; tells them how their canvases stand, and what they have come to. Jobs join and leave
between steps. A canvas's keys and values lie behind those of the tokens before it, which no step of it writes; they are
written over when its tokens are encoded.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import Executor, StepTables
from doppler_core.engine.canvas_job import CanvasJob
from doppler_core.engine.canvases import Sketch, Words
from doppler_core.engine.faults import broken
from doppler_core.engine.pace import Pace
from doppler_core.engine.prefix import Places
from doppler_core.engine.seating import fill, let_in, let_out, seated, stepping
from doppler_core.engine.slots import Run, Slot
from doppler_core.engine.step_parts import Part, deal, tables
from doppler_core.plan.canvas import CanvasStep, pack
from doppler_core.plan.op import State

_ANY = CanvasStep(temperature=1.0, seed=0, left=1, bound=1.0)


@dataclass(frozen=True)
class _Seat:
    """A canvas under way and whose it is."""

    slot: Slot
    run: Run
    job: CanvasJob
    sketch: Sketch


class Denoiser:
    """Carries jobs on. states: of the executor's plan; places: what they hold; context_length: positions of each."""

    def __init__(
        self, executor: Executor, states: Mapping[str, State], places: Places, context_length: int
    ) -> None:
        self._executor = executor
        self._states = states
        self._places = places
        self._context_length = context_length
        self._pace = Pace(most_steps=1)

    def step(self, jobs: Sequence[CanvasJob]) -> None:
        """Encode a step of what is known, and take every canvas a step on."""
        with stepping(self._places):
            let_out(self._places)
            let_in(self._places, jobs)
            let_out(self._places)
            self._encode()
            self._denoise()

    def warmup(self) -> None:
        """Run both phases, unless jobs have done that or are doing it."""
        if any(slot.reached for slot in self._places.slots):
            return
        rows = np.zeros((min(2, self._places.longest_run, self._states["canvas"].capacity), 4), np.uint32)
        rows[:, 1] = np.arange(len(rows))
        slots = np.array([[0, len(rows), 0, 0]], np.uint32)
        self._executor.submit("encode", StepTables(rows, slots)).result()
        self._executor.submit(
            "denoise", StepTables(rows, slots, pack([_ANY]), frozenset({"random"}))
        ).result()

    def _encode(self) -> None:
        """A step of the tokens that are known: prompts, and canvases that others follow."""
        running = seated(self._places)
        known = [(slot, run) for slot, run in running if run.ahead]
        if not known:
            return
        rows = self._pace.rows(self._executor.max_rows, others_wait=len(known) < len(running))
        shares = deal([min(run.ahead, self._places.longest_run) for _, run in known], rows)
        parts = [_next(slot, run, share) for (slot, run), share in zip(known, shares, strict=True) if share]
        for part in parts:
            self._places.advance(part.slot, part.position + len(part.ids))
        begun = time.perf_counter()
        self._executor.submit("encode", tables(parts, advances=False)).result()
        self._pace.note_rows(sum(len(part.ids) for part in parts), time.perf_counter() - begun)
        for part in parts:
            fill(self._places, part)
            part.run.fed += len(part.ids)
            if not part.run.prompt_left:
                part.run.job.prompt_done()

    def _denoise(self) -> None:
        """A step of every canvas, which begins where all that is known has been encoded."""
        seats = [seat for slot, run in seated(self._places) if (seat := self._seat(slot, run)) is not None]
        active = self._noise(seats)
        seats = [seat for seat in seats if not seat.job.done()]
        if not seats:
            return
        begun = time.perf_counter()
        ticket = self._executor.submit("denoise", _tables(seats, active))
        progress = ticket.result()["progress"][0]
        self._pace.note_steps(1, time.perf_counter() - begun)
        for seat, line in zip(seats, progress, strict=True):
            self._land(seat, line)

    def _seat(self, slot: Slot, run: Run) -> _Seat | None:
        """The canvas of a run that can take a step now."""
        job = run.job
        assert isinstance(job, CanvasJob)
        if job.done() or run.ahead or run.left <= 0:
            return None
        sketch = job.sketch
        if sketch is None:
            sketch = job.begin(run.fed, self._context_length - run.fed)
            try:
                first = sketch.first()
            except BaseException as error:  # noqa: BLE001 - of its noise, the requester's own code
                job.fail(error)
                return None
            self._places.advance(slot, run.fed + sketch.length)
            self._write("canvas", slot, sketch, first)
            if "soft" in self._states:
                self._write("soft", slot, sketch, np.zeros((1, self._states["soft"].columns), np.float32))
        return _Seat(slot, run, job, sketch)

    def _noise(self, seats: Sequence[_Seat]) -> frozenset[str]:
        """What the step asks for: noise of its own. Where a canvas has been given some, all have it from here."""
        if all(seat.job.canvases.noise is None for seat in seats):
            return frozenset({"random"})
        for seat in seats:
            try:
                noise = seat.sketch.noise()
            except BaseException as error:  # noqa: BLE001 - the requester's own code: a panic is no Exception
                seat.job.fail(error)
            else:
                self._write("noise", seat.slot, seat.sketch, noise)
        return frozenset()

    def _land(self, seat: _Seat, progress: Words) -> None:
        """A canvas has taken a step."""
        if progress[2]:
            seat.job.fail(broken())
            self._places.spoil(seat.slot)
            return
        done = seat.job.note(progress)
        if not (done or seat.job.shows_drafts):
            return
        capacity = self._states["canvas"].capacity
        lines = self._executor.read_state("canvas", seat.slot.place * capacity, capacity)
        lines = lines[seat.sketch.positions % capacity]
        if seat.job.shows_drafts:
            seat.job.show(lines, done)
        if done:
            seat.run.learn(seat.job.settle(lines))

    def _write(self, name: str, slot: Slot, sketch: Sketch, lines: npt.NDArray[Any]) -> None:
        """Put lines of a canvas's positions into a state; one line stands for all."""
        state = self._states[name]
        whole = np.zeros((state.capacity, state.columns), lines.dtype)
        whole[sketch.positions % state.capacity] = lines
        self._executor.write_state(name, slot.place * state.capacity, whole)


def _next(slot: Slot, run: Run, count: int) -> Part:
    """The next `count` known tokens, after which no step chooses one."""
    return Part(slot, run, run.ids[run.fed : run.fed + count], run.fed, samples=False, known=True)


def _tables(seats: Sequence[_Seat], active: frozenset[str]) -> StepTables:
    """The step's tables, one slot for each canvas. Its tokens are put in on the device."""
    counts = [seat.sketch.length for seat in seats]
    rows = np.zeros((sum(counts), 4), np.uint32)
    rows[:, 1] = np.concatenate([seat.sketch.positions for seat in seats])
    rows[:, 2] = np.repeat(np.arange(len(seats)), counts)
    slots = np.zeros((len(seats), 4), np.uint32)
    slots[:, 0], slots[:, 1] = np.cumsum(counts) - counts, counts
    slots[:, 3] = [seat.slot.place for seat in seats]
    return StepTables(rows, slots, pack([seat.sketch.settings() for seat in seats]), active)
