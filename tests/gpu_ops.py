"""Runs single ops on the software GPU adapter, through the real executor, for comparison with their meaning.

Inputs reach an op as every value does, from another op: a gather of row t from an f32 table of its own, and behind it
the last rows of the slots where the op works on sequences. States are written before the step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pack_blocks import PACKERS, pack

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.executor import StepTables
from doppler_core.device.gpu import Gpu, open_gpu
from doppler_core.device.states import DTYPES
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.constants import make
from doppler_core.plan.kernels import signature
from doppler_core.plan.meaning import MEANINGS, Operands, Tables
from doppler_core.plan.op import Constant, Kernel, Op, Plan, Scalar, State, Value, ValueType, Weight
from doppler_core.weights.storage import as_kernel_type, store, to_f32
from doppler_core.weights.tensor import TOGETHER, StorageType, Tensor

# "llvmpipe" is Mesa's software GPU adapter. NoAdapterError, and so failing tests, where there is none.
SOFTWARE = "wgpu:llvmpipe"


@cache
def software_gpu(default_limits: bool = False) -> Gpu:
    """The software GPU adapter, opened once for all tests, so that a kernel is compiled once."""
    return open_gpu(
        choose_adapter(SOFTWARE),
        features=frozenset(["subgroup", "shader-int64", "shader-f16"]),
        default_limits=default_limits,
    )


def tensor(name: str, values: np.ndarray, dtype: StorageType = "f32") -> Tensor:
    """float32 [rows, columns] or [columns] as a stored tensor."""
    rows = values.astype(np.float32).reshape(-1, values.shape[-1])
    # f32 as it is: a test may feed a NaN, which no file may hold.
    if dtype == "f32":
        data = rows.view(np.uint8)
    else:
        data = pack(rows, dtype) if dtype in PACKERS else store(rows, dtype, name)
    return Tensor(name, values.shape, dtype, data.reshape(-1), Path(name))


def stored_form(dtype: StorageType) -> StorageType:
    """The type in which a file holds what a kernel reads as `dtype`."""
    return next((stored for stored, together in TOGETHER.items() if together == dtype), dtype)


def read_back(stored: Tensor, dtype: StorageType) -> np.ndarray:
    """The values a kernel that reads `dtype` finds in a stored tensor: rows laid together are the same values."""
    read = stored_form(dtype)
    values = to_f32(
        Tensor(stored.name, stored.shape, read, as_kernel_type(stored, read).reshape(-1), stored.path)
    )
    return values.reshape(stored.shape)


def packed_step(
    lengths: Sequence[int], start: int | Sequence[int] = 0, dimensions: int = 0, places: Sequence[int] = ()
) -> Tables:
    """Tables of sequences laid one behind the other; ids = row numbers.

    start: the position of every sequence's first row, or of each one's.
    """
    starts = [start] * len(lengths) if isinstance(start, int) else start
    firsts = np.cumsum([0, *lengths[:-1]])
    rows = np.zeros((sum(lengths), 4), np.uint32)
    rows[:, 0] = np.arange(len(rows))
    for slot, (first, length, begin) in enumerate(zip(firsts, lengths, starts, strict=True)):
        rows[first : first + length, 1] = begin + np.arange(length)
        rows[first : first + length, 2] = slot
    slots = np.zeros((len(lengths), 4), np.uint32)
    slots[:, 0], slots[:, 1], slots[:, 2] = firsts, lengths, dimensions
    slots[:, 3] = places or np.arange(len(lengths))
    return Tables(rows, slots)


@dataclass(frozen=True)
class Kept:
    """A state before the step: values [places * capacity, columns], in the dtype it is kept in."""

    values: np.ndarray
    dtype: ValueType = "f32"
    capacity: int = 1

    @property
    def stored(self) -> np.ndarray:
        """The values as they are kept."""
        return self.values.astype(DTYPES[self.dtype])

    def state(self, name: str) -> State:
        """The plan's word for it."""
        return State(name, self.values.shape, self.dtype, self.capacity)


@dataclass(frozen=True)
class Case:
    """One op with everything it reads: its inputs, then its states."""

    meaning: str
    kernel: str
    params: Mapping[str, Scalar]
    tables: Tables
    inputs: Sequence[np.ndarray] = ()
    weights: Sequence[np.ndarray] = ()
    weight_types: Sequence[tuple[StorageType, StorageType]] = ()  # stored, as the kernel reads it
    constants: Sequence[Constant] = ()
    columns: int = 0  # of the output
    per_sequence: bool = False  # inputs are [S, columns]
    states: Sequence[Kept] = ()
    changes_state: bool = False  # the output is the last of the states
    dtype: ValueType = "f32"  # of the output
    overrides: Mapping[str, Scalar] = field(default_factory=dict)

    def types(self) -> tuple[list[ValueType], ValueType]:
        """Those in which the kernel reads its inputs, and in which it writes."""
        operands = signature(Kernel(*self.kernel.split("#"), "")).operands
        read = [one.dtypes[0] for one in operands if one.kind == "input"][: len(self.inputs)]
        half = operands[-1].dtypes == ("f16",)
        return read, "f16" if half else self.dtype

    def read(self) -> list[np.ndarray]:
        """The inputs as the kernel reads them."""
        return [
            x.astype(DTYPES[dtype]).astype(x.dtype)
            for x, dtype in zip(self.inputs, self.types()[0], strict=True)
        ]

    def expected(self) -> np.ndarray:
        """What the meaning says, on the values the kernel reads, in the type it writes."""
        weights = [
            read_back(tensor("w", values, stored), read)
            for values, (stored, read) in zip(self.weights, self.weight_types, strict=True)
        ]
        states = [kept.stored.astype(kept.values.dtype) for kept in self.states]
        given = Operands([*self.read(), *states], weights, [make(constant) for constant in self.constants])
        tables = self.tables.of_sequences() if self.per_sequence else self.tables
        found = MEANINGS[self.meaning](self.params, given, tables)
        return found.astype(np.float16).astype(np.float32) if self.types()[1] == "f16" else found

    def plan(self) -> tuple[Plan, dict[str, Tensor]]:
        """A plan that feeds the inputs and ends with the op."""
        of_slots = ("pool", "l2norm", "last_rows", "progress")
        dim = "S" if self.meaning in of_slots or self.per_sequence else "T"
        feeds, tensors, values = [], {}, []
        of_sequences = self.per_sequence or self.meaning == "l2norm"
        types, written = self.types()
        for index, (x, dtype) in enumerate(zip(self.inputs, types, strict=True)):
            table = lines_of_sequences(x, self.tables) if of_sequences else x
            feeds += feed(f"x{index}", table, of_sequences)
            feeds += [cast(feeds[-1].output, "f16")] if dtype == "f16" else []
            tensors[f"x{index}"] = tensor(f"x{index}", table)
            values.append(feeds[-1].output)
        if self.changes_state and not feeds:  # a phase has something to read back
            feeds += feed("x", np.zeros((len(self.tables.rows), 1)), False)
            tensors["x"] = tensor("x", np.zeros((len(self.tables.rows), 1)))
        weights = []
        for index, (w, (stored, read)) in enumerate(zip(self.weights, self.weight_types, strict=True)):
            tensors[f"w{index}"] = tensor(f"w{index}", w, stored)
            weights.append(Weight(f"w{index}", w.shape, stored, read))
        states = [kept.state(f"s{index}") for index, kept in enumerate(self.states)]
        file, entry = self.kernel.split("#")
        op = Op(
            meaning=self.meaning,
            role=self.meaning,
            layer=None,
            kernel=Kernel(file, entry, "", self.overrides),
            inputs=(*values, *states),
            output=states[-1] if self.changes_state else Value("result", (dim, self.columns), written),
            weights=tuple(weights),
            constants=tuple(self.constants),
            params=self.params,
        )
        output, after = feeds[-1].output if self.changes_state else op.output, []
        if output.dtype == "f16":  # what is read back is whole words, however many values a row has
            after = [cast(output, "f32")]
            output = after[0].output
        return Plan("test", {"encode": (*feeds, op, *after)}, {"encode": (output,)}), tensors

    def run(self, gpu: Gpu | None = None, text: Callable[[str], str] = kernel_text) -> np.ndarray:
        """The op's output on the software GPU adapter."""
        plan, tensors = self.plan()
        rows, slots = self.tables.rows, self.tables.slots
        executor = bind_wgpu(
            plan, tensors, gpu or software_gpu(), max_rows=len(rows), max_slots=len(slots), text=text
        )
        for index, kept in enumerate(self.states):
            executor.write_state(f"s{index}", 0, kept.stored)
        tables = StepTables(rows, slots, self.tables.sampling)
        output = executor.submit("encode", tables).result()[plan.outputs["encode"][0].name][0]
        if self.changes_state:
            return executor.read_state(f"s{len(self.states) - 1}", 0, len(self.states[-1].values))
        return output


def feed(name: str, x: np.ndarray, per_sequence: bool) -> list[Op]:
    """Ops whose last output is x."""
    columns = x.shape[1]
    value = Value(f"{name}.rows" if per_sequence else name, ("T", columns))
    ops = [
        Op(
            meaning="gather",
            role=f"feed {name}",
            layer=None,
            kernel=Kernel("gather.wgsl", "main", ""),
            inputs=(),
            output=value,
            weights=(Weight(name, x.shape, "f32", "f32"),),
            params={"scale": 1.0, "columns": columns},
        )
    ]
    if per_sequence:
        last = Value(name, ("S", columns))
        ops.append(
            Op("last_rows", f"feed {name}", None, Kernel("last_rows.wgsl", "main", ""), (value,), last)
        )
    return ops


def cast(x: Value, dtype: Literal["f16", "f32"]) -> Op:
    """The op that gives x in another type."""
    kernel = Kernel(f"cast_{x.dtype}_to_{dtype}.wgsl", "main", "")
    output = Value(f"{x.name}.{dtype}", x.shape, dtype)
    return Op("cast", f"cast {x.name}", None, kernel, (x,), output, params={"columns": x.columns})


def lines_of_sequences(x: np.ndarray, tables: Tables) -> np.ndarray:
    """A table that holds x[s] at the id of slot s's last row, and NaN where nothing may be read."""
    ids = tables.of_sequences().rows[:, 0]
    table = np.full((int(tables.rows[:, 0].max()) + 1, x.shape[1]), np.nan, np.float32)
    table[ids] = x
    return table
