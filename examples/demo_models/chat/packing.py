"""Conversations to rows of one length: encoded, packed best-fit, with the roles of their tokens.

Takes segments and a tokenizer, gives tensors. Knows nothing of the model.
"""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor
from wire import ROLES, Segment

_ROLE = {name: number for number, name in enumerate(ROLES)}
Encoded = tuple[list[int], list[int]]  # ids, roles


@dataclass(frozen=True)
class Rows:
    """Each [rows, tokens + 1]: ids; role of each; position in its conversation; which conversation, -1 for padding."""

    ids: Tensor
    roles: Tensor
    positions: Tensor
    documents: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, begin: int, count: int) -> "Rows":
        return Rows(
            *(t[begin : begin + count] for t in (self.ids, self.roles, self.positions, self.documents))
        )


def encode(samples: Sequence[Sequence[Segment]], tokenizer: Tokenizer) -> list[Encoded]:
    """Segments are encoded alone, so that a token never spans what is read and what is said."""
    encodings = iter(
        tokenizer.encode_batch_fast(
            [text for sample in samples for text, _ in sample], add_special_tokens=False
        )
    )
    found: list[Encoded] = []
    for sample in samples:
        ids: list[int] = []
        roles: list[int] = []
        for _, role in sample:
            piece = next(encodings).ids
            ids += piece
            roles += [_ROLE[role]] * len(piece)
        found.append((ids, roles))
    return found


def clipped(samples: Sequence[Encoded], length: int) -> list[Encoded]:
    """The samples' first tokens; those of which nothing that is said would be left are left out."""
    return [(ids[:length], roles[:length]) for ids, roles in samples if any(roles[:length])]


def pack(samples: Sequence[Encoded], length: int, rng: random.Random | None = None) -> Rows:
    """Rows of `length` + 1 tokens; each sample, longest first, goes where the least room is left. Those that are too
    long are left out. With a generator the rows are shuffled."""
    bins: list[list[Encoded]] = []
    rooms: list[tuple[int, int]] = []  # room left, bin: sorted
    for one in sorted((s for s in samples if len(s[0]) <= length + 1), key=lambda s: -len(s[0])):
        size = len(one[0])
        at = bisect_left(rooms, (size, -1))
        room, place = rooms.pop(at) if at < len(rooms) else (length + 1, len(bins))
        if place == len(bins):
            bins.append([])
        bins[place].append(one)
        left = (room - size, place)
        rooms.insert(bisect_left(rooms, left), left)
    if rng:
        rng.shuffle(bins)
    return _tensors(bins, length + 1)


def _tensors(bins: Sequence[Sequence[Encoded]], length: int) -> Rows:
    rows: list[list[list[int]]] = [[], [], [], []]
    for held in bins:
        ids = [number for one, _ in held for number in one]
        pad = [0] * (length - len(ids))
        rows[0].append(ids + pad)
        rows[1].append([role for _, roles in held for role in roles] + pad)
        rows[2].append([place for one, _ in held for place in range(len(one))] + pad)
        rows[3].append([which for which, (one, _) in enumerate(held) for _ in one] + [-1] * len(pad))
    return Rows(*map(torch.tensor, rows))
