"""An op of the NumPy executor bound to its buffers, and the kinds of twins that run it. It knows no meaning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_weights import NumpyWeight
from doppler_core.plan.operands import Array, Params, Tables


@dataclass(frozen=True)
class Call:
    """An op bound to its buffers for one step: everything but the range of rows.

    weights: matrices. vectors: weights of one axis, with the op's offset added. tables: whose
    `rows` are the op's, T or S. facts: what ops derive from these tables, worked out once a step.
    half: what the op writes is rounded to f16. It is held as f32 all the same (numpy_ops).
    """

    params: Params
    inputs: Sequence[npt.NDArray[Any]]
    output: npt.NDArray[Any]
    weights: Sequence[NumpyWeight]
    vectors: Sequence[Array]
    constants: Sequence[Array]
    tables: Tables
    facts: dict[object, Any] = field(default_factory=dict)
    half: bool = False

    def fact(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gives, made by the first op of the step that asks for it."""
        if key not in self.facts:
            self.facts[key] = make()
        return self.facts[key]

    def round(self, rows: slice = slice(None)) -> None:
        """Round rows of the output, if it is f16. What lies beyond 65,504 becomes infinite, as on most GPUs."""
        if self.half:
            with np.errstate(over="ignore"):
                self.output[rows] = self.output[rows].astype(np.float16)

    def lines(self) -> npt.NDArray[np.int64]:
        """Each row's line in a state of the op's `capacity`, [R]."""
        capacity = int(self.params["capacity"])
        found: npt.NDArray[np.int64] = self.fact(("lines", capacity), lambda: self.tables.lines(capacity))
        return found


@dataclass(frozen=True)
class PartOp:
    """parts(call, threads): what threads can run side by side. run(call, part): one of them."""

    parts: Callable[[Call, int], Sequence[Any]]
    run: Callable[[Call, Any], None]
