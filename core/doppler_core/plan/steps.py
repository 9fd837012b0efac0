"""The steps a manifest declares, as lowering asks for them: by phase list, layer and role.

A role that is asked for is consumed. One that is declared and never asked for must be void for a stated reason,
or it is an error: a manifest can't name work that does not happen. A role that is not declared is implied, and
takes the kernel of its stand-in in the same list, or a kernel of ours where no list could name one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from doppler_core.errors import PlanError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.execution import Step
from doppler_core.manifest.model import Manifest
from doppler_core.plan.op import Finding, Kernel, Origin

# The role whose kernel an implied role takes: an implied norm is a norm, an implied projection a matmul.
STAND_INS: Mapping[str, str] = {
    "q_norm": "input_norm",
    "k_norm": "input_norm",
    "v_norm": "input_norm",
    "pre_feedforward_norm": "input_norm",
    "post_feedforward_norm": "input_norm",
    "dense": "o_proj",
}

# Ops of the embedding head, which the step lists have no words for.
OWN_KERNELS: Mapping[str, tuple[str, str]] = {
    "pool": ("pool_mean.wgsl", "main"),
    "l2norm": ("l2norm.wgsl", "main"),
}


@dataclass(frozen=True)
class Place:
    """Where a step stands: its role, and its layer or None before and after the layers."""

    role: str
    layer: int | None

    def __str__(self) -> str:
        return self.role if self.layer is None else f"layers.{self.layer}.{self.role}"


class Steps:
    """The steps of one phase: `preLayer`, the phase's own list per layer, `postLayer`."""

    def __init__(self, manifest: Manifest, phase_list: Literal["decode", "prefill"], layers: int) -> None:
        execution = manifest.execution
        self._kernels = {
            key: Kernel(kernel.kernel, kernel.entry, kernel.digest, dict(kernel.constants))
            for key, kernel in execution.kernels.items()
        }
        self._steps: dict[Place, Step] = {}
        self._asked: set[Place] = set()
        self._void: dict[Place, str] = {}
        self._list = phase_list
        self._add([*execution.pre_layer, *execution.post_layer], None)
        for layer in range(layers):
            declared = execution.layer_steps(phase_list, layer)
            if not declared:
                raise PlanError(
                    f"execution.{phase_list}: layer {layer} is in no group and no step stands outside the groups; "
                    "add it to the `layers` of a group"
                )
            self._add(declared, layer)

    def _add(self, steps: Iterable[Step], layer: int | None) -> None:
        for step in steps:
            place = Place(step.op, layer)
            if step.kernel not in self._kernels:
                raise PlanError(
                    f"step {place} names the kernel {step.kernel!r}, which execution.kernels does not have; "
                    f"it has {sorted(self._kernels)}"
                )
            if place in self._steps:
                raise PlanError(f"step {place} is declared twice; keep one of them")
            self._steps[place] = step

    def resolve(self, role: str, layer: int | None, tensor: str | None) -> tuple[Kernel, Origin, str]:
        """The kernel of a role, whether it was declared or implied, and a note on where it comes from.

        `tensor` is the logical name the step's weights must have, `{L}` for the layer.
        """
        place = Place(role, layer)
        step = self._steps.get(place)
        if step is not None:
            self._asked.add(place)
            if step.weights is not None and tensor is not None and step.weights != tensor:
                raise PlanError(
                    f"step {place} names the weights {step.weights!r}, but this role reads {tensor!r}"
                )
            return self._kernels[step.kernel], "declared", ""
        if role in OWN_KERNELS:
            file, entry = OWN_KERNELS[role]
            return Kernel(file, entry, kernel_digest(file, entry)), "implied", ""
        stand_in = self._stand_in(STAND_INS.get(role), layer)
        if stand_in is None:
            raise PlanError(
                f"execution.{self._list} declares no step for the role {role!r}"
                + ("" if layer is None else f" of layer {layer}")
                + " and nothing stands in for it; add the step"
            )
        return self._kernels[stand_in.kernel], "implied", f"kernel of {stand_in.op}"

    def _stand_in(self, role: str | None, layer: int | None) -> Step | None:
        if role is None:
            return None
        return self._steps.get(Place(role, 0 if layer is None else layer))

    def void(self, role: str, layer: int, reason: str) -> None:
        """Say that this layer has no such op, should the manifest declare it."""
        self._void[Place(role, layer)] = reason

    def findings(self) -> tuple[Finding, ...]:
        """Void steps and kernels that no step uses; PlanError on a step that nothing asked for."""
        found = []
        for place in self._steps:
            if place in self._asked:
                continue
            if place not in self._void:
                raise PlanError(
                    f"step {place} is declared, but this architecture has no such op; remove the step"
                )
            found.append(Finding(f"step {place}", "void", self._void[place]))
        used = {self._steps[place].kernel for place in self._asked}
        found += [
            Finding(f"execution.kernels.{key}", "unused", "no step of the phases that run names it")
            for key in self._kernels
            if key not in used
        ]
        return tuple(found)
