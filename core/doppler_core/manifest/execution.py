"""`execution`: kernels by key, the step lists that choose them by role, and the policies."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_serializer, model_validator

from doppler_core.manifest.base import Count, Dtype, Items, Name, Objects, Scalar, Section, expected

DIGEST_FORM = r"^sha256:[0-9a-f]{64}$"
KERNEL_FORM = r"^[A-Za-z0-9_]+\.wgsl$"
ENTRY_FORM = r"^[A-Za-z_][A-Za-z0-9_]*$"
STEP_FIELDS = ("op", "kernel", "weights")


class Precision(Section):
    """The dtypes a kernel is used with; a type not named is the session's."""

    activation_dtype: Dtype | None = None
    kv_dtype: Dtype | None = None
    input_dtype: Dtype | None = None
    output_dtype: Dtype | None = None


class KernelSpec(Section):
    """An entry point of a WGSL file, the digest of the text it was made for, its override constants."""

    kernel: Annotated[str, Field(pattern=KERNEL_FORM)]
    entry: Annotated[str, Field(pattern=ENTRY_FORM)]
    digest: Annotated[str, Field(pattern=DIGEST_FORM)]
    constants: Objects[Scalar] = Field(default_factory=dict)
    precision: Precision | None = None


class Step(Section):
    """A tuple [op, kernelKey, weights?]. `op` is the role; `{L}` in `weights` stands for the layer's number."""

    op: Name
    kernel: Name
    weights: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_tuple(cls, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) in (2, 3):
            return dict(zip(STEP_FIELDS, value, strict=False))
        raise expected("a step [op, kernelKey] or [op, kernelKey, weights]")

    @model_serializer
    def _to_tuple(self) -> list[str]:
        return [self.op, self.kernel] + ([self.weights] if self.weights is not None else [])


class Group(Section):
    """Steps of some layers only: {layers, steps}."""

    layers: Items[Count]
    steps: Items[Step]


def _kind(value: Any) -> str:
    return "group" if isinstance(value, dict | Group) else "step"


LayerSteps = Items[
    Annotated[Annotated[Step, Tag("step")] | Annotated[Group, Tag("group")], Discriminator(_kind)]
]


def _no_group(value: Any) -> Any:
    if isinstance(value, dict):
        raise expected("a step: a section that runs once takes no layer groups")
    return value


BoundarySteps = Items[Annotated[Step, BeforeValidator(_no_group)]]


class Policies(Section):
    """`execution.policies`: each has one value, and it is enforced."""

    unsupported_precision: Literal["error"]
    dtype_transition: Literal["require_cast_step"]
    unresolved_kernel: Literal["error"]


class Execution(Section):
    """`execution`: `preLayer`, one of `decode` and `prefill` per layer, `postLayer`."""

    kernels: Objects[KernelSpec]
    pre_layer: BoundarySteps
    decode: LayerSteps
    prefill: LayerSteps
    post_layer: BoundarySteps
    policies: Policies

    def layer_steps(self, phase: Literal["decode", "prefill"], layer: int) -> tuple[Step, ...]:
        """The steps of one layer: those in no group, and those of the groups that name the layer."""
        found: list[Step] = []
        for item in self.decode if phase == "decode" else self.prefill:
            if isinstance(item, Step):
                found.append(item)
            elif layer in item.layers:
                found.extend(item.steps)
        return tuple(found)

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Every step of every list with its JSON path."""
        lists: tuple[tuple[str, tuple[Step | Group, ...]], ...] = (
            ("preLayer", self.pre_layer),
            ("decode", self.decode),
            ("prefill", self.prefill),
            ("postLayer", self.post_layer),
        )
        for name, items in lists:
            for index, item in enumerate(items):
                where = f"execution.{name}[{index}]"
                if isinstance(item, Step):
                    yield where, item
                else:
                    yield from ((f"{where}.steps[{i}]", step) for i, step in enumerate(item.steps))
