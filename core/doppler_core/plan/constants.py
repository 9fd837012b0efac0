"""Tables that a plan needs beside the checkpoint's tensors, computed once when the plan is bound.

They are tables because WGSL's cos and sin promise little outside [-pi, pi].
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from doppler_core.plan.op import Constant, Scalar


def rope(params: Mapping[str, Scalar]) -> npt.NDArray[np.float32]:
    """(cos, sin) of position * theta^(-2i / head_dim), [positions, head_dim / 2, 2] f32.

    Where `pairs` is given, only so many of the head_dim / 2 pairs turn (Gemma 4's full layers): the others have
    cos 1 and sin 0.
    Angles are products of two f32 values, as transformers computes them: computed in f64 they would differ
    by 1e-4 at position 2047, which shows in the vectors of long texts.
    """
    exponent = np.arange(0, int(params["head_dim"]), 2, dtype=np.float32) / np.float32(params["head_dim"])
    frequency = (1.0 / np.power(np.float32(params["theta"]), exponent)).astype(np.float32)
    frequency[int(params.get("pairs", len(frequency))) :] = 0
    position = np.arange(int(params["positions"]), dtype=np.float32)
    angle = position[:, None] * frequency[None] / np.float32(params["scaling_factor"])
    return np.stack([np.cos(angle), np.sin(angle)], -1)


MAKERS: Mapping[str, Callable[[Mapping[str, Scalar]], npt.NDArray[np.float32]]] = {"rope": rope}


def make(constant: Constant) -> npt.NDArray[np.float32]:
    """The table that a plan's constant stands for, in the shape the plan gives it."""
    return MAKERS[constant.maker](constant.params).reshape(constant.shape)
