"""What may be read of a state and written into it. Both executors use it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.errors import InputError
from doppler_core.plan.op import State, ValueType

DTYPES: Mapping[ValueType, type[np.generic]] = {"f32": np.float32, "f16": np.float16, "u32": np.uint32}


def rows_of(states: Mapping[str, State], name: str, row: int, count: int) -> State:
    """The state called `name`. InputError where there is none, or not `count` rows from `row` on."""
    state = states.get(name)
    if state is None:
        raise InputError(f"no state is called {name!r}; there are {', '.join(sorted(states)) or 'none'}")
    total = int(state.shape[0])
    if row < 0 or count < 0 or row + count > total:
        raise InputError(f"rows {row} to {row + count} of state {name!r}: it has {total}")
    return state


def values_for(
    states: Mapping[str, State], name: str, row: int, values: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """`values` as they go into the state from `row` on, contiguous. InputError where shape or dtype differ."""
    state = rows_of(states, name, row, len(values))
    if values.dtype != DTYPES[state.dtype] or values.shape[1:] != (state.columns,):
        raise InputError(
            f"state {name!r} takes {state.dtype} rows of {state.columns} values, "
            f"not {values.dtype} of shape {values.shape}"
        )
    return np.ascontiguousarray(values)


def check_copy(states: Mapping[str, State], name: str, source: int, target: int, count: int) -> State:
    """The state. InputError where rows are missing, or where what is read and what is written overlap."""
    rows_of(states, name, source, count)
    if abs(source - target) < count:
        raise InputError(f"state {name!r}: {count} rows from {source} and from {target} on overlap")
    return rows_of(states, name, target, count)
