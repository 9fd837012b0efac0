"""Which sequences share a step: no padding, one of each request in turn, so that none waits for a larger one."""

from collections.abc import Sequence

Packing = list[tuple[int, int]]  # (number of the request, index of its sequence), in the order of the slots


def pack(waiting: Sequence[tuple[Sequence[int], int]], max_rows: int, max_slots: int) -> Packing:
    """Sequences for one step, given for each request the lengths (in rows) of all its sequences, and the first to run.

    A request gives its sequences in order, so that a prefix of them is always done. A sequence that does not fit
    in what is left ends its request's turn for this step. Every sequence is at most `max_rows` long.
    """
    taken: Packing = []
    room = max_rows
    turns = [(number, first) for number, (lengths, first) in enumerate(waiting) if first < len(lengths)]
    while turns:
        following = []
        for number, index in turns:
            lengths = waiting[number][0]
            need = lengths[index]
            if need > room or len(taken) == max_slots:
                continue
            taken.append((number, index))
            room -= need
            if index + 1 < len(lengths):
                following.append((number, index + 1))
        turns = following
    return taken
