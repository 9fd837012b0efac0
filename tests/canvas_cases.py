"""Ops on awkward canvases for the software GPU adapter, and how what it finds is compared."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from canvas_steps import canvas_step
from gpu_ops import Case, Kept, software_gpu

from doppler_core.device.gpu import Gpu
from doppler_core.device.limits import sections
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.op import Scalar, Weight
from doppler_core.plan.operands import Tables

TOLERANCE = 1e-5  # exp and log of this device are right to 4e-6
CAPACITY, PLACES = 8, 4
LINES = CAPACITY * PLACES


def awkward_step(temperatures: Sequence[float] = (0.4, 1.0, 3.0), greedy: bool = False) -> Tables:
    """Canvases of 8, 1 and 5 rows: the first on its second turn around its ring, the last across its end."""
    every = [CanvasStep(one, 11, 3, 0.1, greedy) for one in temperatures]
    return canvas_step([8, 1, 5], every, starts=[11, 0, 5], places=[2, 3, 0])


def kept(table: np.ndarray) -> Kept:
    """A state of the step's canvases, or a table of a line a row."""
    dtype = "u32" if table.dtype == np.uint32 else "f32"
    return Kept(table, dtype, CAPACITY if len(table) == LINES else 1)


def case(
    meaning: str, step: Tables, states: Sequence[np.ndarray], changes_state: bool = True, **params: Scalar
) -> Case:
    return Case(
        meaning,
        f"{meaning}.wgsl#main",
        {"capacity": CAPACITY, **params},
        step,
        states=[kept(one) for one in states],
        changes_state=changes_state,
    )


def bits_as_numbers(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float32)


def assert_numbers(found: np.ndarray, expected: np.ndarray) -> None:
    """Bits of f32 that stand for nearly the same numbers."""
    np.testing.assert_allclose(
        bits_as_numbers(found), bits_as_numbers(expected), rtol=TOLERANCE, atol=TOLERANCE
    )


def small_gpu(max_binding: int, weight: Weight) -> Gpu:
    """The software adapter with so small a limit that the weight is cut."""
    assert len(sections(weight, max_binding)) > 1
    return replace(software_gpu(), max_binding=max_binding)
