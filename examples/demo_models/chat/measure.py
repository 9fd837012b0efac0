"""How often every token of a part is the most likely one, given what stands before it.

Takes a model and encoded held-out conversations, gives shares by role. For a part by itself this equals greedy
decoding, since the first error is the same, and it costs one pass. The tests measure the package's own decoding.
"""

import random
from collections import Counter
from collections.abc import Callable

import torch
from model import CausalModel, attention_masks
from packing import Rows, encode, pack
from samples import copy_sample, json_sample, passage_sample, tool_sample, two_step_sample
from tokenizers import Tokenizer
from torch import Tensor
from values import Values
from wire import ROLES, Segment

_CHUNK = 16  # rows at once
_SETS: dict[str, Callable[[Values], list[Segment]]] = {
    "tool": lambda values: tool_sample(values, values.rng.choice((2, 3, 4)), turns=1),
    "two": lambda values: two_step_sample(values, turns=1),
    "passage": lambda values: passage_sample(values, turns=1),
    "copy": copy_sample,
    "json": json_sample,
}


def held_out(tokenizer: Tokenizer, count: int, length: int, seed: int) -> dict[str, Rows]:
    """`count` conversations of each kind, of unseen words, packed to rows of `length`."""
    values = Values(random.Random(seed), held_out=True)
    return {
        name: pack(encode([draw(values) for _ in range(count)], tokenizer), length)
        for name, draw in _SETS.items()
    }


@torch.no_grad()
def measure(model: CausalModel, sets: dict[str, Rows]) -> dict[str, float]:
    """For each set and role the share of conversations that have it wholly right; `call`: name and arguments."""
    model.eval()
    shares: dict[str, float] = {}
    for name, rows in sets.items():
        right: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for begin in range(0, len(rows), _CHUNK):
            part = rows.part(begin, _CHUNK)
            hits = _hits(model, part)
            for row in range(len(part)):
                for document in range(int(part.documents[row].max()) + 1):
                    inside = part.documents[row, 1:] == document
                    found = _by_role(hits[row], part.roles[row, 1:], inside)
                    seen.update(list(found))  # of a mapping, a Counter would add the values
                    right.update(role for role, whole in found.items() if whole)
        shares |= {f"{name}.{role}": round(right[role] / seen[role], 3) for role in seen if role != "chat"}
    model.train()
    return shares


def _hits(model: CausalModel, rows: Rows) -> Tensor:
    masks = attention_masks(rows.documents[:, :-1], model.model.shape.window, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(rows.ids[:, :-1], rows.positions[:, :-1], masks)
    return model.logits(hidden).argmax(-1) == rows.ids[:, 1:]


def _by_role(hits: Tensor, roles: Tensor, inside: Tensor) -> dict[str, bool]:
    found = {}
    for number, role in enumerate(ROLES):
        chosen = inside & (roles == number)
        if role and chosen.any():
            found[role] = bool(hits[chosen].all())
    if "name" in found:
        found["call"] = found["name"] and found["arguments"] and found["chat"]
    return found
