"""Tasks to tensors: prompts packed into rows for the encoder, and the canvas that has to follow each.

Takes tasks and a tokenizer. An answer longer than a canvas is cut into several; one of them is the right canvas, and
those before it belong to what is known. Knows nothing of noise or of the model's weights.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import beside  # noqa: F401
import torch
import wire
from layers import KeysValues, Shape
from model import FULL, SLIDING, attention_masks
from network import Masks
from tasks import Task
from tokenizers import Tokenizer
from torch import Tensor

PAD, END = 0, 106
ROW = 96  # tokens of a row, at least the longest prompt with what was answered before


@dataclass(frozen=True)
class Example:
    """Token ids: what is known, and the canvas that follows."""

    known: list[int]
    right: list[int]


@dataclass(frozen=True)
class Batch:
    """Packed prompts and their canvases.

    ids, positions, documents [rows, tokens]: a document is a prompt, -1 padding; right [canvases, canvas]; row,
    document, length, example [canvases]: where a canvas's prompt is, how many tokens it has, which example it was.
    """

    ids: Tensor
    positions: Tensor
    documents: Tensor
    right: Tensor
    row: Tensor
    document: Tensor
    length: Tensor
    example: Tensor

    def encoder_masks(self, shape: Shape, dtype: torch.dtype) -> Masks:
        return attention_masks(self.documents, shape.window, dtype)

    def canvas_masks(self, shape: Shape, dtype: torch.dtype) -> Masks:
        """All of the canvas, and its prompt: in a sliding layer the prompt's last `window` - 1 tokens."""
        prompt = self.documents[self.row] == self.document[:, None]
        near = prompt & (self.positions[self.row] > (self.length - shape.window)[:, None])
        return {SLIDING: _seen(near, shape.canvas, dtype), FULL: _seen(prompt, shape.canvas, dtype)}

    def canvas_positions(self, shape: Shape) -> Tensor:
        return self.length[:, None] + torch.arange(shape.canvas)

    def known(self, kept: Sequence[KeysValues]) -> list[KeysValues]:
        """Each canvas's row of what the encoder kept."""
        return [(k[self.row], v[self.row]) for k, v in kept]


def prompt_text(request: str) -> str:
    """What the package sends for one message of the user."""
    return wire.BEGIN + wire.user_turn(request) + wire.MODEL_TURN


def examples(tasks: Sequence[Task], tokenizer: Tokenizer, canvas: int, rng: random.Random) -> list[Example]:
    """One canvas of each task, any of its answer's."""
    texts = [text for task in tasks for text in (prompt_text(task.request), task.answer + wire.CLOSE)]
    encoded = [one.ids for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    found = []
    for prompt, answer in zip(encoded[::2], encoded[1::2], strict=True):
        begin = canvas * rng.randrange(-(-len(answer) // canvas))
        right = answer[begin : begin + canvas]
        found.append(Example(prompt + answer[:begin], right + [PAD] * (canvas - len(right))))
    return found


def pack(chosen: Sequence[Example], least: int = 0) -> Batch:
    """Best-fit into rows, longest first; empty rows are added up to `least`."""
    held: list[list[int]] = []
    free: list[int] = []
    for number in sorted(range(len(chosen)), key=lambda i: -len(chosen[i].known)):
        size = len(chosen[number].known)
        if size > ROW:
            raise ValueError(f"expected at most {ROW} known tokens, found {size}")
        row = min((i for i, room in enumerate(free) if room >= size), key=free.__getitem__, default=len(held))
        if row == len(held):
            held.append([])
            free.append(ROW)
        held[row].append(number)
        free[row] -= size
    rows = max(least, len(held))
    ids, positions = torch.zeros(rows, ROW, dtype=torch.long), torch.zeros(rows, ROW, dtype=torch.long)
    documents = torch.full((rows, ROW), -1)
    places: list[tuple[int, int, int, int]] = []
    for row, numbers in enumerate(held):
        begin = 0
        for document, number in enumerate(numbers):
            known = torch.tensor(chosen[number].known)
            end = begin + len(known)
            ids[row, begin:end], positions[row, begin:end] = known, torch.arange(len(known))
            documents[row, begin:end] = document
            places.append((row, document, len(known), number))
            begin = end
    columns = [torch.tensor(column) for column in zip(*places, strict=True)]
    right = torch.tensor([example.right for example in chosen])[columns[-1]]
    return Batch(ids, positions, documents, right, *columns)


def _seen(prompt: Tensor, canvas: int, dtype: torch.dtype) -> Tensor:
    """[canvases, 1, canvas, prompt + canvas], 0 or as good as -inf; all tokens of a canvas see the same."""
    hidden = torch.zeros(prompt.shape, dtype=dtype).masked_fill_(~prompt, -3e4)
    whole = torch.cat((hidden, torch.zeros(len(prompt), canvas, dtype=dtype)), 1)
    return whole[:, None, None].expand(-1, 1, canvas, -1).contiguous()
