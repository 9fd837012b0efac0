"""How many held-out tasks come out exact, by the model's own sampler.

Takes a model and tasks, gives shares. A task whose answer takes several canvases counts with one of them here; the tests
measure the package's own generation.
"""

import random
from collections import Counter
from collections.abc import Sequence

from network import DiffusionModel
from rows import PAD, examples, pack
from sampler import Settings, generate
from tasks import Task
from tokenizers import Tokenizer


def measure(
    model: DiffusionModel, tokenizer: Tokenizer, tasks: Sequence[Task], greedy: bool
) -> dict[str, object]:
    """The share of exact answers, the mean number of steps, and of each kind with errors: right of how many."""
    model.eval()
    batch = pack(examples(tasks, tokenizer, model.shape.canvas, random.Random(0)))
    found = generate(model, batch, Settings(), greedy)
    exact = ((found.canvas == batch.right) | (batch.right == PAD)).all(1).tolist()
    kinds = [tasks[number].kind for number in batch.example]
    right, asked = Counter(kind for kind, one in zip(kinds, exact, strict=True) if one), Counter(kinds)
    model.train()
    wrong = {kind: f"{right[kind]}/{count}" for kind, count in asked.items() if right[kind] < count}
    return {
        "exact": round(sum(exact) / len(exact), 3),
        "steps": round(float(found.steps.float().mean()), 1),
    } | wrong
