"""Random weights of tiny DiffusionGemmas: a function of a tensor's name and shape, in NumPy alone.

The script that records what transformers computes and the tests that need a model too large to be committed make the
same values. numpy.random.RandomState keeps its streams for good.
"""

import zlib

import numpy as np
import numpy.typing as npt

SMALL = 0.01  # of what a step hands to the next


def bf16(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Rounded to bf16, to the nearest, halves to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def weight(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    """A tensor of sensible size that bf16 holds exactly; nothing is a constant, so that nothing can be left out unnoticed.

    A small table behind a large final norm, and layers that outweigh what goes into the first, keep the tied head from
    repeating its input, in wide models too. What a step hands to the next is small: a large one would magnify the
    rounding of the first step many times over.
    """
    noise = np.random.RandomState([seed, zlib.crc32(name.encode())]).standard_normal(shape)
    if name.endswith("layer_scalar"):
        made = 0.9 + 0.1 * noise
    elif name.endswith((".decoder.norm.weight", "language_model.norm.weight")):
        made = (1 + 0.1 * noise) * 5 * shape[0] ** 0.5
    elif name.endswith("embed_tokens.weight"):
        made = 1.5 / shape[1] * noise
    elif name.endswith("router.scale"):
        made = (1 + 0.2 * noise) * shape[0] ** 0.5
    elif "q_norm" in name or "k_norm" in name:
        made = 0.5 + 0.1 * noise
    elif name.endswith(("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")):
        made = (1 + 0.15 * noise) * (shape[0] / 64) ** 0.5
    elif len(shape) == 1:
        made = 1 + 0.15 * noise
    else:
        made = 1.5 / shape[-1] ** 0.5 * noise
    if name.endswith("self_conditioning.down_proj.weight"):
        made *= SMALL * 64 / shape[0]
    return bf16(made)
