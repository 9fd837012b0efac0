"""Train the demo chat model from scratch and write it as a Hugging Face folder.

    python train.py OUTPUT_FOLDER [--minutes 65] [--seed 1] [--start FOLDER --passed 6.7]

Takes nothing but the scripts beside it: conversations are made up as they are needed, none is seen twice. Two processes
train together, a core each. The curriculum, the length of the rows and the learning rate follow the clock, so that it ends
when it has to.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo
import torch.nn.functional as F
import training
from export import read_model, write_checkpoint
from measure import held_out, measure
from model import CausalModel, Shape, attention_masks, soft_capped
from packing import Rows, clipped, encode, pack
from samples import sample
from tokenizer import train_tokenizer
from tokenizers import Tokenizer
from torch import Tensor
from values import Values
from wire import ROLES, Segment

TOKENIZER_SAMPLES = 15_000
PROMPT_WEIGHT = 0.1  # of a token that is read, where one that is said weighs 1
NAME_WEIGHT = 3.0  # of a tool's name: to choose is the hardest part, and one token of many
HELD_RATE = 0.55  # share of the time after which the rate falls, in a straight line
EASY = 0.2  # share of the conversations that are of the level below
BUFFER = 2500  # conversations packed together
REPORT = 900  # seconds between two measurements
MEASURED = 150  # conversations of each kind
LONGEST = 512
_OWN_WEIGHTS = {"": PROMPT_WEIGHT, "name": NAME_WEIGHT}
ROLE_WEIGHTS = torch.tensor([_OWN_WEIGHTS.get(role, 1.0) for role in ROLES])


@dataclass(frozen=True)
class Stage:
    """What is learned until a share of the time has passed: small steps first, long rows last."""

    until: float
    level: int
    length: int
    rows: int


STAGES = (
    Stage(0.06, 0, 320, 10),
    Stage(0.14, 1, 320, 10),
    Stage(0.68, 2, 384, 8),
    Stage(1.0, 2, LONGEST, 10),
)


def stage_at(share: float) -> Stage:
    return next((stage for stage in STAGES if share < stage.until), STAGES[-1])


class Data:
    """Rows without end for the stage that it is asked for."""

    def __init__(self, tokenizer: Tokenizer, rng: random.Random) -> None:
        self._tokenizer, self._rng = tokenizer, rng
        self._stage: Stage | None = None
        self._rows: Iterator[Rows] = iter(())

    def rows(self, stage: Stage) -> Rows:
        if stage != self._stage:
            self._stage, self._rows = stage, iter(())
        while (found := next(self._rows, None)) is None:
            drawn = encode([self._sample(stage.level) for _ in range(BUFFER)], self._tokenizer)
            packed = pack(clipped(drawn, stage.length + 1), stage.length, self._rng)
            begins = range(0, len(packed) - stage.rows + 1, stage.rows)
            self._rows = iter([packed.part(begin, stage.rows) for begin in begins])
        return found

    def _sample(self, level: int) -> list[Segment]:
        easier = self._rng.random() < EASY
        return sample(Values(self._rng, level=max(0, level - easier)))


def head_loss(hidden: Tensor, embedding: Tensor, targets: Tensor, weights: Tensor, cap: float) -> Tensor:
    logits = F.linear(hidden.to(torch.bfloat16), embedding.to(torch.bfloat16)).float()
    losses = F.cross_entropy(soft_capped(logits, cap), targets, reduction="none")
    return (losses * weights).sum() / weights.sum()


def loss_of(model: CausalModel, rows: Rows, head: Callable[..., Tensor]) -> Tensor:
    text = model.model
    masks = attention_masks(rows.documents[:, :-1], text.shape.window, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = text(rows.ids[:, :-1], rows.positions[:, :-1], masks)
    follows = (rows.documents[:, 1:] == rows.documents[:, :-1]) & (rows.documents[:, 1:] >= 0)
    weights = ROLE_WEIGHTS[rows.roles[:, 1:]] * follows
    return head(
        hidden.flatten(0, 1),
        text.embed_tokens.weight,
        rows.ids[:, 1:].flatten(),
        weights.flatten(),
        text.shape.softcap,
    )


def optimizers(model: CausalModel) -> list[torch.optim.Optimizer]:
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        plain = parameter.dim() == 2 and "embed_tokens" not in name
        (matrices if plain else others).append(parameter)
    return training.optimizers(matrices, others)


def from_scratch(seed: int) -> tuple[CausalModel, Tokenizer]:
    values = Values(random.Random(seed))
    texts = ("".join(text for text, _ in sample(values)) for _ in range(TOKENIZER_SAMPLES))
    return CausalModel(Shape()), train_tokenizer(texts)


def train(rank: int, out: Path, minutes: float, seed: int, start: Path | None, passed: float) -> None:
    torch.manual_seed(seed)
    model, tokenizer = read_model(start) if start else from_scratch(seed)
    model.train()
    torch._dynamo.config.recompile_limit = 64  # a layer of each kind, for rows of each length
    for layer in model.model.layers:
        layer.compile(dynamic=False)
    head = torch.compile(head_loss, dynamic=False)
    data = Data(tokenizer, random.Random(f"{seed} {rank}"))
    sets = held_out(tokenizer, MEASURED, LONGEST, seed + 1)

    def loss_at(share: float) -> tuple[Tensor, int]:
        rows = data.rows(stage_at(share))
        return loss_of(model, rows, head), int((rows.documents >= 0).sum())

    def report(figures: dict[str, float]) -> None:
        if rank == 0:
            write_checkpoint(model, tokenizer, out)
            print(json.dumps(figures | measure(model, sets)), flush=True)

    clock = training.Time(minutes * 60, passed * 60, REPORT, HELD_RATE)
    training.run(model, optimizers(model), loss_at, report, clock)


if __name__ == "__main__":
    training.main(train, __doc__ or "", minutes=65)
