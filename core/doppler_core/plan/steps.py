"""The steps a manifest declares, as lowering asks for them: by phase list, layer and role.

A role that is asked for is consumed. One that is declared and never asked for must be void for a stated reason,
or it is an error: a manifest can't name work that does not happen. A role that is not declared is implied, and
takes the kernel of its stand-in in the same list, or a kernel of ours where no list could name one. Where activations
are f16 a kernel makes room for its twin for f16.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from doppler_core.errors import PlanError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.execution import Precision, Step
from doppler_core.manifest.model import Manifest
from doppler_core.plan.activations import WIDE
from doppler_core.plan.kernel_tables.f16 import TWINS
from doppler_core.plan.op import Kernel, Origin

# The step that stands for a role under another name: `ffn` is gate, up, activation and down in one word.
OTHER_NAMES: Mapping[str, str] = {"activation": "ffn"}

# The roles whose kernel an implied role takes, the first that is declared: a norm's for a norm, a matmul's for a
# projection. `ffn` names the kernel of its activation, so that its projections take o_proj's.
STAND_INS: Mapping[str, tuple[str, ...]] = {
    "q_norm": ("input_norm",),
    "k_norm": ("input_norm",),
    "v_norm": ("input_norm",),
    "pre_feedforward_norm": ("input_norm",),
    "post_feedforward_norm": ("input_norm",),
    "per_layer_norm": ("input_norm",),
    "per_layer_projection_norm": ("input_norm",),
    "gate_proj": ("o_proj",),
    "up_proj": ("o_proj",),
    "down_proj": ("o_proj",),
    "dense": ("o_proj",),
    "per_layer_gate": ("o_proj",),
    "per_layer_projection": ("o_proj",),
    "per_layer_model_projection": ("o_proj",),
    "per_layer_activation": ("activation", "ffn"),
    "per_layer_residual": ("ffn_residual",),
    "per_layer_inputs": ("ffn_residual",),
    "per_layer_embed": ("embed",),
    "dense_norm": ("input_norm",),
    "router_norm": ("input_norm",),
    "experts_norm": ("input_norm",),
    "post_experts_norm": ("input_norm",),
    "router": ("lm_head_prefill",),
    "experts_activation": ("activation", "ffn"),
    "experts_residual": ("ffn_residual",),
    "soft_norm": ("input_norm",),
    "soft_gate": ("o_proj",),
    "soft_up": ("o_proj",),
    "soft_down": ("o_proj",),
    "soft_activation": ("activation", "ffn"),
    "soft_residual": ("ffn_residual",),
    "canvas_norm": ("input_norm",),
}

# Ops that the step lists have no words for.
OWN_KERNELS: Mapping[str, tuple[str, str]] = {
    "pool": ("pool_mean.wgsl", "main"),
    "l2norm": ("l2norm.wgsl", "main"),
    "store": ("store.wgsl", "main"),
    "last_rows": ("last_rows.wgsl", "main"),
    "last_per_layer_inputs": ("last_rows.wgsl", "main"),
    "softcap": ("softcap.wgsl", "main"),
    "adjust": ("adjust.wgsl", "main"),
    "draw": ("draw.wgsl", "main"),
    "logprobs": ("logprobs.wgsl", "main"),
    "count": ("count.wgsl", "main"),
    "advance": ("advance.wgsl", "main"),
    "route": ("route.wgsl", "main"),
    "experts_gate_up": ("expert_matmul.wgsl", "main"),
    "experts_down": ("expert_matmul.wgsl", "main"),
    "experts_sum": ("expert_sum.wgsl", "main"),
    "seat": ("seat.wgsl", "main"),
    "recall": ("recall.wgsl", "main"),
    "noise": ("noise.wgsl", "main"),
    "tally": ("tally.wgsl", "main"),
    "blend": ("blend.wgsl", "main"),
    "pick": ("pick.wgsl", "main"),
    "soften": ("soften.wgsl", "main"),
    "progress": ("progress.wgsl", "main"),
    "accept": ("accept.wgsl", "main"),
}

# The same for weights that are stored packed.
PACKED_KERNELS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("experts_gate_up", "q4_k"): ("expert_matmul_q4_k.wgsl", "main"),
    ("experts_down", "q4_k"): ("expert_matmul_q4_k.wgsl", "main"),
}


@dataclass(frozen=True)
class Place:
    """Where a step stands: its role, and its layer or None before and after the layers."""

    role: str
    layer: int | None

    def __str__(self) -> str:
        return self.role if self.layer is None else f"layers.{self.layer}.{self.role}"


@dataclass(frozen=True)
class Resolved:
    """The kernel of a role, and a note on where it comes from. precision: the types that the manifest uses it with."""

    kernel: Kernel
    origin: Origin
    note: str = ""
    precision: Precision | None = None

    @property
    def named(self) -> str | None:
        """The type of activations that the manifest names for it; None: the session's."""
        said = self.precision
        return None if said is None else said.input_dtype or said.output_dtype or said.activation_dtype


class Steps:
    """The steps of one phase: `preLayer`, the phase's own list per layer, `postLayer`.

    kernels: those of the manifest by key. declared: all steps; asked: those that an op was made of; voided: why a layer
    has no op of a role.
    """

    def __init__(self, manifest: Manifest, phase_list: Literal["decode", "prefill"], layers: int) -> None:
        execution = manifest.execution
        self.kernels = {
            key: Kernel(kernel.kernel, kernel.entry, kernel.digest, dict(kernel.constants))
            for key, kernel in execution.kernels.items()
        }
        self._precisions = {key: kernel.precision for key, kernel in execution.kernels.items()}
        self._activations = manifest.session.compute.defaults.activation_dtype
        self.phase_list = phase_list
        self.declared: dict[Place, Step] = {}
        self.asked: set[Place] = set()
        self.voided: dict[Place, str] = {}
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
            if step.kernel not in self.kernels:
                raise PlanError(
                    f"step {place} names the kernel {step.kernel!r}, which execution.kernels does not have; "
                    f"it has {sorted(self.kernels)}"
                )
            if place in self.declared:
                raise PlanError(f"step {place} is declared twice; keep one of them")
            self.declared[place] = step

    def resolve(self, role: str, layer: int | None, tensor: str | None, stored: str = "") -> Resolved:
        """The kernel of a role, declared or implied, for the activations that the role has.

        `tensor` is the logical name the step's weights must have, `{L}` for the layer; `stored`: their type.
        """
        found = self._found(role, layer, tensor, stored)
        twin = TWINS.get(found.kernel.file)
        if twin is None or role in WIDE or (found.named or self._activations) != "f16":
            return found
        entry = found.kernel.entry
        said = f"for {found.kernel}: activations are f16"
        return replace(
            found,
            kernel=Kernel(twin, entry, kernel_digest(twin, entry), found.kernel.constants),
            note="; ".join(part for part in (found.note, said) if part),
        )

    def _found(self, role: str, layer: int | None, tensor: str | None, stored: str) -> Resolved:
        place = Place(role, layer)
        if place not in self.declared and role in OTHER_NAMES:
            place = Place(OTHER_NAMES[role], layer)
        step = self.declared.get(place)
        if step is not None:
            self.asked.add(place)
            if step.weights is not None and tensor is not None and step.weights != tensor:
                raise PlanError(
                    f"step {place} names the weights {step.weights!r}, but this role reads {tensor!r}"
                )
            return self._of(step, "declared", "" if step.op == role else f"step {step.op}")
        if role in OWN_KERNELS:
            file, entry = PACKED_KERNELS.get((role, stored), OWN_KERNELS[role])
            return Resolved(Kernel(file, entry, kernel_digest(file, entry)), "implied")
        stand_in = self._stand_in(role, layer)
        if stand_in is None:
            raise PlanError(
                f"execution.{self.phase_list} declares no step for the role {role!r}"
                + ("" if layer is None else f" of layer {layer}")
                + " and nothing stands in for it; add the step"
            )
        return self._of(stand_in, "implied", f"kernel of {stand_in.op}")

    def _of(self, step: Step, origin: Origin, note: str) -> Resolved:
        return Resolved(self.kernels[step.kernel], origin, note, self._precisions[step.kernel])

    def _stand_in(self, role: str, layer: int | None) -> Step | None:
        """The first of its stand-ins that the layer's list declares; outside the layers, layer 0's or their own."""
        for name in STAND_INS.get(role, ()):
            for place in (Place(name, 0 if layer is None else layer), Place(name, None)):
                if place in self.declared:
                    return self.declared[place]
        return None

    def declares(self, role: str) -> bool:
        """Whether a step before or after the layers has this role."""
        return Place(role, None) in self.declared

    def void(self, role: str, layer: int | None, reason: str) -> None:
        """Say that this layer has no such op, should the manifest declare it."""
        self.voided[Place(role, layer)] = reason
