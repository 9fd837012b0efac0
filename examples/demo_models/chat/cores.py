"""One model trained by several processes, each on a core of its own with rows of its own.

At this size a second thread makes a step hardly faster, a second process nearly twice. Every process holds the whole
model, and takes the same step with the mean of all gradients. Knows nothing of the model.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor

CORES = 2


def on_each_core(work: Callable[..., None], *args: object) -> None:
    """Run work(rank, *args) in as many processes as there are cores to use; a process that fails ends all."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder) / 'meeting'}"
        torch.multiprocessing.spawn(_begin, (meeting, work, args), nprocs=CORES)


def _begin(rank: int, meeting: str, work: Callable[..., None], args: Sequence[object]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=CORES)
    try:
        work(rank, *args)
    finally:
        dist.destroy_process_group()


def mean(parameters: Iterable[Tensor], figures: Sequence[float]) -> list[float]:
    """Make every process's gradients the mean of all, in place; give the figures' means."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor(figures)])
    dist.all_reduce(flat)
    flat /= CORES
    *parts, means = flat.split([*(g.numel() for g in gradients), len(figures)])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
    return [float(one) for one in means]
