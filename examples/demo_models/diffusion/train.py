"""Train the demo diffusion model from scratch and write it as a Hugging Face folder.

    python train.py OUTPUT_FOLDER [--minutes 95] [--seed 1] [--start FOLDER --passed 20]

Takes nothing but the scripts beside it and the chat model's: tasks are made up as they are needed. Two processes train
together, a core each. Every prompt is encoded once and its canvas denoised twice, first alone, then knowing what the
first time gave, as the sampler's steps do. The curriculum and the learning rate follow the clock, so that it ends when
it has to.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import beside  # noqa: F401
import cores
import torch
import torch._dynamo
import torch.nn.functional as F
import training
from cases import task_cases
from draw import Draw
from export import read_model, write_checkpoint
from layers import Shape
from measure import measure
from network import DiffusionModel
from noising import noised
from rows import PAD, Batch, examples, pack, prompt_text
from sampler import Settings, stepped
from tasks import drawn, task
from tokenizer import train_tokenizer
from tokenizers import Tokenizer
from torch import Tensor

TOKENIZER_SAMPLES = 15_000
CANVASES = 48  # a core's prompts in a step
ROWS = 16  # that hold them, but for one time in a hundred
PAD_WEIGHT = 0.1  # of a token of padding, where one of the answer weighs 1
UNEVEN_WEIGHT = 0.01  # of experts that are used unevenly
EASY_UNTIL, EASY = 0.08, 0.1  # share of the time with easy tasks alone; share of easy ones after it
HELD_RATE = 0.5  # share of the time after which the rate falls, in a straight line
REPORT = 300  # seconds between two measurements
MEASURED = 100  # tasks


class Data:
    """Batches without end; `level` may change between two."""

    def __init__(self, tokenizer: Tokenizer, rng: random.Random, canvas: int) -> None:
        self.level, self._rng, self._tokenizer, self._canvas = 0, rng, tokenizer, canvas
        self._draws = [Draw(rng, level) for level in (0, 1)]
        self._ready: Iterator[Batch] = iter(())

    def batch(self) -> Batch:
        while (found := next(self._ready, None)) is None or len(found.ids) > ROWS:
            self._ready = iter(self._batches(20)) if found is None else self._ready
        return found

    def _batches(self, count: int) -> list[Batch]:
        tasks = [drawn(self._drawer(), held_out=False) for _ in range(count * CANVASES)]
        ready = examples(tasks, self._tokenizer, self._canvas, self._rng)
        return [pack(ready[begin : begin + CANVASES], ROWS) for begin in range(0, len(ready), CANVASES)]

    def _drawer(self) -> Draw:
        return self._draws[self.level if self._rng.random() >= EASY else 0]


def loss_of(model: DiffusionModel, batch: Batch, settings: Settings) -> Tensor:
    """Of both times that each canvas is denoised."""
    shape, dtype = model.shape, torch.bfloat16
    canvas = noised(batch.right, shape.vocab)
    with torch.autocast("cpu", dtype):
        kept = model.encode(batch.ids, batch.positions, batch.encoder_masks(shape, dtype))
        known, masks, positions = (
            batch.known(kept),
            batch.canvas_masks(shape, dtype),
            batch.canvas_positions(shape),
        )
        first = model.denoise(canvas, positions, masks, known, None)
        before = first.detach() / _temperatures(len(canvas), settings)
        second = model.denoise(_next(before, batch.right, settings.bound), positions, masks, known, before)
    uneven = torch.stack(model.uneven).mean()
    model.uneven.clear()
    return _missed(first, batch.right) + _missed(second, batch.right) + UNEVEN_WEIGHT * uneven


def _temperatures(count: int, settings: Settings) -> Tensor:
    return settings.temperature(0) + (settings.hot - settings.cold) * torch.rand(count, 1, 1)


@torch.no_grad()
def _next(before: Tensor, right: Tensor, bound: float) -> Tensor:
    """The canvases of the second time: every other one the sampler's own, with the model's own errors."""
    canvas = noised(right, before.shape[-1])
    canvas[::2], _ = stepped(before[::2], bound)
    return canvas


def _missed(logits: Tensor, right: Tensor) -> Tensor:
    losses = F.cross_entropy(logits.flatten(0, 1), right.flatten(), reduction="none")
    weights = torch.where(right == PAD, PAD_WEIGHT, 1.0).flatten()
    return (losses * weights).sum() / weights.sum()


def optimizers(model: DiffusionModel) -> list[torch.optim.Optimizer]:
    """AdamW's: the table, routers, norms and factors."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() == 2 and "embed_tokens" not in name and "router" not in name
        (matrices if plain else others).append(parameter)
    return training.optimizers(matrices, others)


def from_scratch(seed: int) -> tuple[DiffusionModel, Tokenizer]:
    draw = Draw(random.Random(seed))
    tasks = (task(draw) for _ in range(TOKENIZER_SAMPLES))
    return DiffusionModel(Shape()), train_tokenizer(prompt_text(one.request) + one.answer for one in tasks)


def train(rank: int, out: Path, minutes: float, seed: int, start: Path | None, passed: float) -> None:
    torch.manual_seed(seed)
    model, tokenizer = read_model(start) if start else from_scratch(seed)
    model.train()
    torch.manual_seed(seed * cores.CORES + rank)  # noise of its own for each process
    torch._dynamo.config.recompile_limit = 64  # a layer of each kind, for prompts and for canvases
    for layer in model.decoder.layers:
        layer.compile(dynamic=False)
    data, settings = Data(tokenizer, random.Random(f"{seed} {rank}"), model.shape.canvas), Settings()
    cases = task_cases(MEASURED, seed + 1)

    def loss_at(share: float) -> tuple[Tensor, int]:
        data.level = int(share >= EASY_UNTIL)
        batch = data.batch()
        return loss_of(model, batch, settings), int((batch.right != PAD).sum())

    def report(figures: dict[str, float]) -> None:
        if rank == 0:
            write_checkpoint(model, tokenizer, out)
            for greedy in (False, True):
                found = {"greedy": greedy} | measure(model, tokenizer, cases, greedy)
                print(json.dumps(figures | found), flush=True)

    clock = training.Time(minutes * 60, passed * 60, REPORT, HELD_RATE)
    training.run(model, optimizers(model), loss_at, report, clock)


if __name__ == "__main__":
    training.main(train, __doc__ or "", minutes=95)
