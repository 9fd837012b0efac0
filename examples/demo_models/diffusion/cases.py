"""Held-out tasks: what the model is asked, and what it has to answer. No answer of theirs is taught.

Takes a count and a seed. Needs no torch; the tests read it, and so does `check.py`.
"""

import random

from draw import Draw
from tasks import Task, drawn


def task_cases(count: int, seed: int) -> list[Task]:
    """The mixture that is taught, small talk aside."""
    draw = Draw(random.Random(seed))
    return [drawn(draw, held_out=True) for _ in range(count)]
