"""Train the demo embedding model from scratch and write it as a Hugging Face folder.

    python train.py OUTPUT_FOLDER [--seed 1] [--leave-out N]

Takes the passages beside this file, gives a sentence-transformers checkpoint laid out like EmbeddingGemma's.
"""

import argparse
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from data import Augmenter, Passage, as_document, as_query, load_passages, load_synonyms
from export import WIDTHS, write_checkpoint
from model import Encoder, Shape
from start import word_statistics
from tokenizer import Sampler, train_tokenizer
from tokenizers import Tokenizer
from torch import Tensor

# Every width is trained to stand alone ("matryoshka"), so a vector may be cut and normalised again.
WIDTH_WEIGHTS = dict(zip(WIDTHS, (1.0, 0.6, 0.3), strict=True))
SCALE = 20.0  # cosine -> logit: a temperature of 0.05
SMOOTHING = 0.05
QUERIES = 3  # of each passage of a step
MIXTURE_WEIGHT = 0.5
ROUGH = 0.08  # share of words split otherwise than the tokenizer splits them
WARM_UP = 20  # steps
PAD = 0


@dataclass(frozen=True)
class Stage:
    deep: bool
    steps: int
    rate: float
    passages: int  # in one step
    mixtures: int
    report: int  # steps between two lines of print


# The words alone first, which costs next to nothing; then the layers on top of them.
STAGES = (
    Stage(deep=False, steps=400, rate=1e-3, passages=84, mixtures=32, report=100),
    Stage(deep=True, steps=200, rate=4e-4, passages=48, mixtures=16, report=20),
)


def batch(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Padded ids[rows, tokens] and which of them are present."""
    longest = -(-max(map(len, rows)) // 16) * 16  # few shapes: torch prepares each new one at some cost
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return ids, torch.arange(longest) < torch.tensor([len(row) for row in rows])[:, None]


def embed(model: Encoder, rows: list[list[int]], deep: bool = True, chunk: int = 56) -> Tensor:
    """Unit vectors of the rows; rows of like length share a chunk, so that little is spent on padding."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    with torch.autocast("cpu", torch.bfloat16, enabled=model.training):
        parts = [
            model(*batch([rows[i] for i in order[k : k + chunk]]), deep) for k in range(0, len(order), chunk)
        ]
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(parts)[back]


def contrast(queries: Tensor, documents: Tensor, gold: Tensor) -> Tensor:
    """InfoNCE over all documents of the step, summed over the widths with their weights."""
    total = queries.new_zeros(())
    for width, weight in WIDTH_WEIGHTS.items():
        q, d = F.normalize(queries[:, :width], dim=-1), F.normalize(documents[:, :width], dim=-1)
        total = total + weight * F.cross_entropy(SCALE * q @ d.T, gold, label_smoothing=SMOOTHING)
    return total / sum(WIDTH_WEIGHTS.values())


def first_right(
    model: Encoder, sampler: Sampler, passages: list[Passage], asked: list[tuple[str, int]], deep: bool
) -> float:
    """Share of the questions whose passage comes first among all."""
    model.eval()
    with torch.no_grad():
        d = embed(model, [sampler.encode(as_document(p.text)) for p in passages], deep)
        q = embed(model, [sampler.encode(as_query(text)) for text, _ in asked], deep)
    model.train()
    right = (q @ d.T).argmax(1) == torch.tensor([gold for _, gold in asked])
    return float(right.float().mean())


def statistics(passages: list[Passage], sampler: Sampler, shape: Shape) -> tuple[Tensor, Tensor]:
    grouped = [
        [
            i
            for text in (as_document(p.text, p.title), *map(as_query, p.questions))
            for i in sampler.encode(text)
        ]
        for p in passages
    ]
    return word_statistics(grouped, shape.vocab, shape.hidden - 1)


def train(passages: list[Passage], dev: list[tuple[str, int]], seed: int) -> tuple[Encoder, Tokenizer]:
    torch.manual_seed(seed)
    rng = random.Random(seed)
    texts = [text for p in passages for text in (p.title, p.title.lower(), p.text, *p.questions)]
    shape = Shape()
    tokenizer = train_tokenizer([*texts, *load_synonyms(), as_query(""), as_document("")], shape.vocab)
    sampler, augmenter = Sampler(tokenizer, rng), Augmenter(passages, rng)
    model = Encoder(shape, dropout=0.1)
    model.start_as_word_bag(*statistics(passages, sampler, shape))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(passages)} passages")
    for stage in STAGES:
        run(stage, model, sampler, augmenter, dev)
    return model.eval(), tokenizer


def run(
    stage: Stage, model: Encoder, sampler: Sampler, augmenter: Augmenter, dev: list[tuple[str, int]]
) -> None:
    """One stage: warm up, then let the learning rate fall to nothing in a straight line."""
    branches = [p for name, p in model.named_parameters() if "post_" in name]
    others = [p for name, p in model.named_parameters() if "post_" not in name]
    # The branches start almost closed, and the step of Adam does not depend on the gradient's size.
    groups = [{"params": others, "lr": stage.rate}, {"params": branches, "lr": 2 * stage.rate}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP, (stage.steps - step) / stage.steps)
    )
    gold = torch.arange(stage.passages).repeat_interleave(QUERIES)
    started = time.monotonic()
    model.train()
    for step in range(stage.steps):
        chosen = sampler.rng.sample(augmenter.passages, stage.passages)
        mixed = [augmenter.mixture() for _ in range(stage.mixtures)]
        queries = [augmenter.query(p) for p in chosen for _ in range(QUERIES)] + [q for q, _ in mixed]
        documents = [augmenter.document(p) for p in chosen] + [d for _, d in mixed]
        rows = [sampler.encode(text, ROUGH) for text in queries + documents]
        vectors = embed(model, rows, stage.deep)
        q, d = vectors[: len(queries)], vectors[len(queries) :]
        real = contrast(q[: len(gold)], d[: len(chosen)], gold)
        made_up = contrast(q[len(gold) :], d[len(chosen) :], torch.arange(stage.mixtures))
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(real + MIXTURE_WEIGHT * made_up)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % stage.report == 0 or step == stage.steps - 1:
            score = f"{first_right(model, sampler, augmenter.passages, dev, stage.deep):.3f}" if dev else "-"
            print(
                f"{time.monotonic() - started:6.0f} s  step {step:5}  loss {real.item():.3f}"
                f"  mixtures {made_up.item():.3f}  dev {score}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--leave-out", type=int, help="measure on the N-th question of each passage instead")
    args = parser.parse_args()
    torch.set_num_threads(2)
    passages, dev = load_passages(), []
    if args.leave_out is not None:
        dev = [(p.questions[(args.leave_out + i) % len(p.questions)], i) for i, p in enumerate(passages)]
        passages = [
            Passage(p.id, p.subject, p.title, p.text, tuple(q for q in p.questions if q != text))
            for p, (text, _) in zip(passages, dev, strict=True)
        ]
    write_checkpoint(*train(passages, dev, args.seed), args.out)


if __name__ == "__main__":
    main()
