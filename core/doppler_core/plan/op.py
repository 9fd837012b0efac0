"""The plan's data: values, weights, kernels, ops, phases. Pure and printable; it knows no device.

A dimension is a number, or a symbol bound at each step: "T" rows of the step, "S" sequences (slots).
Tables travel with every step, all u32:
    rows     [T, 4]   token id, position in its sequence, slot, 0
    slots    [S, 4]   first row, row count, dimensions asked for, place in the states
    last     [S, 4]   the line of `rows` that is each slot's last: what ops of S rows read in place of `rows`
    sampling [S, 16]  how each slot's next token is chosen (plan.sampling); only for phases that sample
A state outlives its step: keys and values of a layer, logits that are adjusted in place, a token mask.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from doppler_core.weights.tensor import StorageType, tensor_bytes

Dim = int | Literal["T", "S"]
ValueType = Literal["f32", "f16", "u32"]
Origin = Literal["declared", "implied", "substituted"]
Scalar = bool | int | float

VALUE_BYTES: Mapping[ValueType, int] = {"f32": 4, "f16": 2, "u32": 4}


@dataclass(frozen=True)
class Value:
    """An intermediate of one step. Names are unique within a phase."""

    name: str
    shape: tuple[Dim, ...]
    dtype: ValueType = "f32"

    @property
    def columns(self) -> int:
        """Values of a row: the last axis, which is a number in every plan."""
        return int(self.shape[-1])

    def bytes(self, rows: int, sequences: int, in_words: bool = False) -> int:
        """Size for a step of `rows` rows in `sequences` sequences. in_words: where each value takes four bytes."""
        size = 4 if in_words else VALUE_BYTES[self.dtype]
        for dim in self.shape:
            size *= rows if dim == "T" else sequences if dim == "S" else dim
        return size


@dataclass(frozen=True)
class State(Value):
    """What stays on the device from step to step, [places * capacity, columns]; an op may read it or write it.

    A sequence has `capacity` rows at its place: position p lies in row place * capacity + p mod capacity, so that a
    capacity below the context is a ring. A state without positions has a capacity of 1.
    """

    capacity: int = 1

    @property
    def places(self) -> int:
        """How many sequences it holds."""
        return int(self.shape[0]) // self.capacity


ROWS = Value("rows", ("T", 4), "u32")
SLOTS = Value("slots", ("S", 4), "u32")
LAST = Value("last", ("S", 4), "u32")
SAMPLING = Value("sampling", ("S", 16), "u32")


SECTION_ROWS = 256  # where sections begin that ops ask for: any row's bytes times it can begin a binding

HOST = (
    "host"  # in place of a kernel's file: the executor computes the op before the step, from the tables alone
)


@dataclass(frozen=True)
class Section:
    """Rows [first, first + count) of a tensor."""

    first: int
    count: int


@dataclass(frozen=True)
class Weight:
    """A tensor read by a kernel: how the artifact stores it, and the type the kernel reads.

    section: the rows that the op reads, where those are not all.
    """

    name: str
    shape: tuple[int, ...]
    stored: StorageType
    dtype: StorageType
    section: Section | None = None

    @property
    def resident_bytes(self) -> int:
        """Bytes of the whole tensor on a GPU: the type the kernel reads."""
        return tensor_bytes(self.dtype, self.shape)

    @property
    def read_bytes(self) -> int:
        """Bytes of the rows that the op reads."""
        if self.section is None:
            return self.resident_bytes
        return tensor_bytes(self.dtype, (self.section.count, *self.shape[1:]))


@dataclass(frozen=True)
class Constant:
    """A table computed when the plan is bound: `maker` names a function of plan.constants."""

    name: str
    maker: str
    shape: tuple[int, ...]
    params: Mapping[str, Scalar]

    @property
    def resident_bytes(self) -> int:
        """Bytes of the table, which is f32."""
        return tensor_bytes("f32", self.shape)


@dataclass(frozen=True)
class Kernel:
    """A WGSL entry point with its override constants, as a manifest or a profile names it."""

    file: str
    entry: str
    digest: str
    constants: Mapping[str, Scalar] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}#{self.entry}"


@dataclass(frozen=True)
class Op:
    """One operation: `meaning` names its function in plan.meaning, `role` its place in the block.

    `inputs` are in the order the meaning takes them, states among them; the step's tables are passed to every meaning.
    `output` may be a state, which the op changes in part. `when` names what a step must ask for to run the op ("" =
    every step runs it). `note` says what is particular: the manifest field an implied op comes from, the kernel it
    replaces.
    """

    meaning: str
    role: str
    layer: int | None
    kernel: Kernel
    inputs: tuple[Value, ...]
    output: Value
    weights: tuple[Weight, ...] = ()
    constants: tuple[Constant, ...] = ()
    params: Mapping[str, Scalar] = field(default_factory=dict)
    origin: Origin = "declared"
    note: str = ""
    when: str = ""

    @property
    def label(self) -> str:
        """How messages name this op: `layers.3.q_proj`, or the role alone."""
        return self.role if self.layer is None else f"layers.{self.layer}.{self.role}"


@dataclass(frozen=True)
class Finding:
    """Something `plan` prints beside the ops: a field not used, a void step, a kernel no step uses."""

    where: str
    standing: str
    reason: str


@dataclass(frozen=True)
class Step:
    """The size of a step: rows T and sequences S."""

    rows: int
    sequences: int


@dataclass(frozen=True)
class Plan:
    """What runs, in order.

    outputs: what may be read back at the end of each phase. largest: the largest step that buffers are made for.
    """

    model: str
    phases: Mapping[str, tuple[Op, ...]]
    outputs: Mapping[str, tuple[Value, ...]]
    findings: tuple[Finding, ...] = ()
    profile: str | None = None
    largest: Step = Step(1, 1)

    def ops(self) -> Iterator[Op]:
        """All ops of all phases."""
        for ops in self.phases.values():
            yield from ops

    def kept(self, phase: str) -> tuple[str, ...]:
        """Names of the values that must be readable after the phase's last op."""
        return tuple(output.name for output in self.outputs[phase])

    def states(self) -> dict[str, State]:
        """Every state the plan reads or writes, once."""
        values = (value for op in self.ops() for value in (*op.inputs, op.output))
        return {value.name: value for value in values if isinstance(value, State)}

    def constants(self) -> dict[str, Constant]:
        """Every constant the plan reads, once."""
        return {constant.name: constant for op in self.ops() for constant in op.constants}

    def weights(self) -> dict[str, Weight]:
        """Every weight the plan reads, once."""
        return {weight.name: weight for op in self.ops() for weight in op.weights}
