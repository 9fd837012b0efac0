"""Where intermediates live: values whose lives do not overlap share a buffer. A pure function; it knows no device.

A value lies whole in one buffer, at its start. An op's output never shares a buffer with anything alive while it
runs, its inputs above all: WebGPU refuses a buffer that one dispatch both reads and writes. States and tables have
buffers of their own, which outlive the step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from doppler_core.plan.op import HOST, ROWS, Op, State, Value


@dataclass(frozen=True)
class Arena:
    """sizes: bytes of each buffer, the largest first. place: the buffer each value of the phase lies in."""

    sizes: tuple[int, ...]
    place: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """All buffers together."""
        return sum(self.sizes)


def lay_out(
    ops: Sequence[Op],
    kept: Collection[str],
    rows: int,
    sequences: int,
    together: Sequence[int] | None = None,
    in_words: bool = False,
) -> Arena:
    """Lay out a phase's values for steps of up to `rows` rows and `sequences` sequences.

    `kept` values stay readable after the last op. Ops of one number in `together` run side by side, so nothing
    that one of them reads gives its place to what another writes. What the host computes is there from the start.
    in_words: each value takes four bytes, f16 too.
    """
    together = range(len(ops)) if together is None else together
    ending: list[int] = []
    last_use = _last_uses(ops, kept)
    sizes: list[int] = []
    place: dict[str, int] = {}
    free: list[int] = []
    for op in ops:
        if op.kernel.file == HOST:
            place[op.output.name] = _take(free, sizes, op.output.bytes(rows, sequences, in_words))
    for index, op in enumerate(ops):
        touched = {value.name: value for value in (*op.inputs, op.output) if _is_laid_out(value)}
        if op.output.name in touched and op.output.name not in place:
            place[op.output.name] = _take(free, sizes, op.output.bytes(rows, sequences, in_words))
        ending += [place[name] for name in touched if last_use[name] == index]
        if index + 1 == len(ops) or together[index + 1] != together[index]:
            free.extend(ending)
            ending.clear()
    largest_first = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)
    rank = {buffer: number for number, buffer in enumerate(largest_first)}
    return Arena(
        tuple(sizes[buffer] for buffer in largest_first),
        {name: rank[buffer] for name, buffer in place.items()},
    )


def shared(arenas: Iterable[Arena]) -> tuple[int, ...]:
    """Bytes of the buffers that serve several phases, of which one runs at a time: each phase's largest is one of them,
    and so on."""
    return tuple(map(max, zip_longest(*(arena.sizes for arena in arenas), fillvalue=0)))


def _is_laid_out(value: Value) -> bool:
    return not isinstance(value, State) and value != ROWS


def _last_uses(ops: Sequence[Op], kept: Collection[str]) -> dict[str, int]:
    """The index of the op that is the last to touch a value; past the end for those kept."""
    last: dict[str, int] = {}
    for index, op in enumerate(ops):
        values: tuple[Value, ...] = (*op.inputs, op.output)
        last.update({value.name: index for value in values})
    last.update({name: len(ops) for name in kept})
    return last


def _take(free: list[int], sizes: list[int], size: int) -> int:
    """The free buffer that wastes least, else the largest free one grown, else a new one."""
    if not free:
        sizes.append(size)
        return len(sizes) - 1
    fitting = [buffer for buffer in free if sizes[buffer] >= size]
    chosen = min(fitting, key=sizes.__getitem__) if fitting else max(free, key=sizes.__getitem__)
    sizes[chosen] = max(sizes[chosen], size)
    free.remove(chosen)
    return chosen
