"""The loop of a demo model's training: steps by the clock, with the rate that its share of the time asks for.

Takes a model, what its loss is, and what to do with a report. Knows nothing of data or files. Each of the processes that
train together (`cores.py`) runs it, on losses of its own.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import cores
import torch
from torch import Tensor, nn

WARM_UP = 100  # steps
MATRIX_RATE, OTHER_RATE = 4e-3, 3e-3
LAST_RATE = 0.02


@dataclass(frozen=True)
class Time:
    """Seconds in all, those that an earlier run has behind it, those between two reports.

    held_rate: share of the time after which the rate falls, in a straight line.
    """

    whole: float
    passed: float
    report: float
    held_rate: float

    def rate(self, step: int, share: float) -> float:
        """The learning rate as a share of the highest."""
        falling = max(LAST_RATE, (1 - share) / (1 - self.held_rate))
        return min(1.0, (step + 1) / WARM_UP, falling)


def optimizers(matrices: Iterable[Tensor], others: Iterable[Tensor]) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest."""
    muon = torch.optim.Muon(
        matrices, lr=MATRIX_RATE, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(others, lr=OTHER_RATE, weight_decay=0.0, betas=(0.9, 0.98), fused=True)]


def run(
    model: nn.Module,
    steppers: list[torch.optim.Optimizer],
    loss_at: Callable[[float], tuple[Tensor, int]],
    report: Callable[[dict[str, float]], None],
    clock: Time,
) -> None:
    """Train until the time is over.

    loss_at: for a share of the time, the loss of rows that fit it, and how many tokens they hold. report is called now and
    then, and at the end.
    """
    began = time.monotonic() - clock.passed
    highest = [[group["lr"] for group in one.param_groups] for one in steppers]
    now = reported = clock.passed
    step, tokens, smooth = 0, 0.0, 0.0
    while now < clock.whole:
        share = now / clock.whole
        for one, rates in zip(steppers, highest, strict=True):
            for group, rate in zip(one.param_groups, rates, strict=True):
                group["lr"] = rate * clock.rate(step, share)
        loss, held = loss_at(share)
        loss.backward()
        # The mean time is every process's: none takes a step more than the others, or at another rate.
        now, found, filled = cores.mean(model.parameters(), (time.monotonic() - began, loss.item(), held))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in steppers:
            one.step()
            one.zero_grad(set_to_none=True)
        step, tokens = step + 1, tokens + filled * cores.CORES
        smooth = found if step == 1 else 0.95 * smooth + 0.05 * found
        if now - reported > clock.report or now >= clock.whole:
            reported = now
            report({"seconds": round(now), "step": step, "tokens": round(tokens), "loss": round(smooth, 3)})


def main(train: Callable[..., None], description: str, minutes: float) -> None:
    """The command line of a training: train(rank, out, minutes, seed, start, passed) in each process."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=Path, help="go on with a checkpoint that a run has left")
    parser.add_argument("--passed", type=float, default=0.0, help="minutes of training that it has behind it")
    args = parser.parse_args()
    cores.on_each_core(train, args.out, args.minutes, args.seed, args.start, args.passed)
