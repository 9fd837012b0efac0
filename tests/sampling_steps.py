"""Steps that choose tokens: logits, settings and states, for the meaning, the NumPy twins and the kernels alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_sampling import SAMPLING_OPS
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.operands import Operands, Tables
from doppler_core.plan.sampling import Sampling, pack


def step_of(
    settings: Sequence[Sampling], positions: Sequence[int] = (), places: Sequence[int] = ()
) -> Tables:
    """One row a slot, the last of its sequence."""
    rows = np.zeros((len(settings), 4), np.uint32)
    rows[:, 1] = positions or np.arange(len(settings)) + 5
    rows[:, 2] = np.arange(len(settings))
    slots = np.zeros((len(settings), 4), np.uint32)
    slots[:, 0], slots[:, 1], slots[:, 3] = rows[:, 2], 1, places or np.arange(len(settings))
    return Tables(rows, slots, pack(settings))


def meant(meaning: str, step: Tables, *inputs: np.ndarray, vocabulary: int = 0) -> np.ndarray:
    """What the op means."""
    return MEANINGS[meaning]({"vocabulary": vocabulary}, Operands(inputs), step)


def twinned(
    meaning: str, step: Tables, *inputs: np.ndarray, output: np.ndarray, vocabulary: int = 0
) -> np.ndarray:
    """What the NumPy executor's twin makes of it, in `output`."""
    call = Call({"vocabulary": vocabulary}, inputs, output, [], [], [], step)
    SAMPLING_OPS[meaning](call)
    return output


@dataclass(frozen=True)
class States:
    """What adjusts the logits of each place."""

    counts: np.ndarray
    bias: np.ndarray
    mask: np.ndarray

    @property
    def all(self) -> tuple[np.ndarray, ...]:
        """In the order the op takes them."""
        return self.counts, self.bias, self.mask


def random_states(draw: np.random.Generator, places: int, vocabulary: int) -> States:
    """Tokens of the prompt, generated or both; biases, some of them -inf; about half of the tokens allowed."""
    shape = (places, vocabulary)
    counts = draw.integers(0, 3, shape).astype(np.uint32) | draw.integers(0, 2, shape).astype(np.uint32) << 31
    bias = draw.standard_normal(shape).astype(np.float32)
    bias[draw.random(shape) < 0.1] = -np.inf
    mask = draw.integers(0, 1 << 32, (places, -(-vocabulary // 32)), dtype=np.uint32)
    return States(counts, bias, mask)


def random_settings(draw: np.random.Generator, vocabulary: int) -> Sampling:
    """Any mixture of limits; temperatures from none to one that makes all tokens equal."""
    return Sampling(
        temperature=float(draw.choice([0, 1e-6, 0.5, 1, 1.7, 1e30])),
        top_k=int(draw.choice([0, 1, 2, 7, 64, 256, 257, vocabulary, vocabulary + 5])),
        top_p=float(draw.choice([0, 1e-4, 0.3, 0.95, 1])),
        min_p=float(draw.choice([0, 0, 0.1, 1])),
        seed=int(draw.integers(1 << 63)),
        presence=float(draw.choice([0, 0.5])),
        frequency=float(draw.choice([0, -0.25])),
        repetition=float(draw.choice([1, 1.3])),
        biased=bool(draw.integers(2)),
        masked=bool(draw.integers(2)),
    )


def without_limits(settings: Sequence[Sampling], temperature: float) -> list[Sampling]:
    """The same with every token drawn by its weight at this temperature."""
    return [replace(one, temperature=temperature, top_k=0, top_p=1.0, min_p=0.0) for one in settings]


def awkward_logits(draw: np.random.Generator, slots: int, vocabulary: int, kind: str) -> np.ndarray:
    """Logits of a kind that has broken a sampler somewhere."""
    x = (draw.standard_normal((slots, vocabulary)) * draw.choice([0.1, 1, 4, 30])).astype(np.float32)
    first = draw.integers(vocabulary)
    match kind:
        case "plain":
            pass
        case "ties":
            x = np.round(x) / 2
        case "equal":
            x[:] = 1.5
        case "zeros":
            x[:] = np.where(draw.random(x.shape) < 0.5, np.float32(0.0), np.float32(-0.0))
        case "forbidden":
            x[draw.random(x.shape) < 0.5] = -np.inf
        case "none allowed":
            x[0] = -np.inf
        case "infinite":
            x[0, first] = np.inf
        case "two infinite":
            x[0, first], x[0, -1] = np.inf, np.inf
        case "nan":
            x[0, first] = np.nan
        case "negative nan":
            x.view(np.uint32)[0, first] = 0xFFC00001
        case "huge":
            x = x * np.float32(2e36)  # differences near the largest f32
        case "subnormal":
            x = (x * np.float32(1e-38)) * np.float32(0.1)
        case _:
            raise AssertionError(kind)
    return x


KINDS = (
    "plain",
    "ties",
    "equal",
    "zeros",
    "forbidden",
    "none allowed",
    "infinite",
    "two infinite",
    "nan",
    "negative nan",
    "huge",
    "subnormal",
)
