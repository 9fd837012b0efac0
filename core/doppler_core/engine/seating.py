"""Jobs and their places: who has one, who leaves, who is let in. It steps nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from doppler_core.engine.generation import GenerateJob
from doppler_core.engine.prefix import Places
from doppler_core.engine.slots import Run, Slot
from doppler_core.engine.step_parts import Part
from doppler_core.errors import LimitError


def seated(places: Places) -> list[tuple[Slot, Run]]:
    """The places with a job."""
    return [(slot, slot.run) for slot in places.slots if slot.run is not None]


def let_out(places: Places) -> None:
    """The jobs that are done leave."""
    for slot, run in seated(places):
        if run.job.done():
            places.leave(slot)


def let_in(places: Places, jobs: Sequence[GenerateJob]) -> list[Run]:
    """The first of the jobs that have no place, and wait for nothing, take those that are free: their runs. What a job
    then finds wrong with itself fails it."""
    known = {id(run.job) for _, run in seated(places)}
    waiting = [job for job in jobs if id(job) not in known and job.waits_for is None]
    entered = []
    for job in waiting[: len(places.free())]:
        slot = places.take(job.ids)
        slot.run = Run(job, list(job.ids), fed=len(slot.content))
        entered.append(slot.run)
        try:
            job.place(cached=len(slot.content))
        except BaseException as error:  # noqa: BLE001 - of its grammar: a panic is no Exception
            job.fail(error)
    return entered


def fill(places: Places, part: Part) -> None:
    """The part's tokens, which its run has known and a step now takes, lie at its place."""
    prompt = part.run.prompt_left
    places.fill(part.slot, part.ids[:prompt], is_end=0 < prompt <= len(part.ids))
    places.fill(part.slot, part.ids[prompt:])


@contextmanager
def stepping(places: Places) -> Iterator[None]:
    """Around a step of them. What the states hold once one has failed nobody knows."""
    try:
        yield
    except BaseException as error:
        places.forget()
        if isinstance(error, MemoryError):
            raise LimitError(
                f"the system gives no memory for a step ({error}): close other engines or programs, or open the model "
                "with a smaller context_length or fewer slots"
            ) from error
        raise
