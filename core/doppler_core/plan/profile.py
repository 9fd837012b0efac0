"""Kernel profiles: named substitutions of kernels for a class of GPU adapter, applied to a plan and printed with it.

A profile is JSON in manifests/profiles/: when it applies, why, and which kernels it replaces by which.
"""

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from doppler_core.errors import SettingsError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.plan.fusions import Fusion, apply_fusions
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Kernel, Op, Plan
from doppler_core.plan.reading import agreed, disputed, weight_for
from doppler_core.plan.signature import fits
from doppler_core.settings import data_dir

ORDER = ("software", "packed", "gpu")  # the first whose `when` matches is chosen


@dataclass(frozen=True)
class AdapterFacts:
    """What a profile may ask of a GPU adapter, and of the weights it is to hold.

    adapter_type: "CPU", "IntegratedGPU" or "DiscreteGPU". storage_buffers: how many a kernel may bind. weights:
    "declared" where the manifest says how they are stored, "as stored" where a file's own types stand, as a GGUF's do.
    """

    adapter_type: str
    subgroup_size: int
    storage_buffers: int = 8
    weights: str = "declared"


@dataclass(frozen=True)
class Substitution:
    """One kernel in place of another, for weights stored in one of `stored` (empty: any, or none).

    storage_buffers: it is only made on GPU adapters that have fewer of them for a kernel; None = on all.
    It is left out where the op's sizes are not ones the replacement takes.
    """

    kernel: str
    entry: str
    stored: tuple[str, ...]
    replacement: Kernel
    reason: str
    storage_buffers: int | None = None


@dataclass(frozen=True)
class Profile:
    """A named list of substitutions, of which the first that fits an op is made, and fusions made after them.

    activations: the type that activations have in place of the manifest's (plan.activations); None = the manifest's.
    """

    name: str
    when: Mapping[str, tuple[Any, ...]] | None
    substitutions: tuple[Substitution, ...]
    fusions: tuple[Fusion, ...] = ()
    activations: Literal["f32"] | None = None

    def matches(self, facts: AdapterFacts) -> bool:
        """Whether the profile is meant for such a GPU adapter."""
        known = {
            "adapterType": facts.adapter_type,
            "subgroupSize": facts.subgroup_size,
            "weights": facts.weights,
        }
        return self.when is not None and all(known[key] in allowed for key, allowed in self.when.items())


def profiles() -> dict[str, Profile]:
    """The shipped profiles by name."""
    found = [
        _read(json.loads(path.read_text("utf-8"))) for path in data_dir("manifests").glob("profiles/*.json")
    ]
    return {profile.name: profile for profile in found}


def choose_profile(name: str | None, facts: AdapterFacts) -> Profile:
    """The profile of that name, or the first whose `when` matches the GPU adapter."""
    known = profiles()
    if name is None:
        return next(known[each] for each in ORDER if known[each].matches(facts))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise SettingsError(
            f"kernel_profile={name!r}: expected one of {sorted(known)}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )
    return known[name]


def apply_profile(plan: Plan, profile: Profile, storage_buffers: int = 8) -> Plan:
    """The plan with the profile's kernels; each op that changed says which kernel it replaces and why.

    storage_buffers: how many a kernel may bind on the GPU adapter.
    """
    rules = [
        rule
        for rule in profile.substitutions
        if rule.storage_buffers is None or storage_buffers < rule.storage_buffers
    ]
    phases = {phase: tuple(_substitute(op, rules) for op in ops) for phase, ops in plan.phases.items()}
    substituted = dataclasses.replace(plan, phases=phases, profile=profile.name)
    return agreed(apply_fusions(_without_disputes(substituted, plan), profile.fusions))


def _without_disputes(substituted: Plan, plan: Plan) -> Plan:
    """The plan with its own ops again where a tensor's readers, in all phases, could not follow a substitution."""
    names = disputed(substituted)

    def settled(changed: Op, op: Op) -> Op:
        return op if names & {weight.name for weight in op.weights} else changed

    phases = {
        phase: tuple(settled(*pair) for pair in zip(ops, plan.phases[phase], strict=True))
        for phase, ops in substituted.phases.items()
    }
    return dataclasses.replace(substituted, phases=phases)


def _substitute(op: Op, rules: Sequence[Substitution]) -> Op:
    for rule in rules:
        if (rule.kernel, rule.entry) != (op.kernel.file, op.kernel.entry):
            continue
        if rule.stored and not all(weight.stored in rule.stored for weight in op.weights):
            continue
        note = f"for {op.kernel}: {rule.reason}"
        changed = dataclasses.replace(
            op,
            kernel=rule.replacement,
            weights=tuple(
                dataclasses.replace(
                    weight_for(rule.replacement, one.name, one.shape, one.stored, op.label),
                    section=one.section,
                )
                for one in op.weights
            ),
            origin="substituted",
            note="; ".join(part for part in (op.note, note) if part),
        )
        if fits(signature(rule.replacement), changed):
            return changed
    return op


def _read(data: Mapping[str, Any]) -> Profile:
    when = data["when"]
    return Profile(
        name=data["name"],
        when=None if when is None else {key: tuple(allowed) for key, allowed in when.items()},
        substitutions=tuple(
            Substitution(
                kernel=rule["kernel"],
                entry=rule["entry"],
                stored=tuple(rule.get("stored", ())),
                replacement=_read_kernel(rule["with"]),
                reason=rule["reason"],
                storage_buffers=rule.get("storageBuffersBelow"),
            )
            for rule in data["substitutions"]
        ),
        fusions=tuple(_read_fusion(rule) for rule in data.get("fusions", ())),
        activations=data.get("activations"),
    )


def _read_fusion(rule: Mapping[str, Any]) -> Fusion:
    if "with" not in rule:
        return Fusion(rule["fusion"], rule["reason"])
    return Fusion(rule["fusion"], rule["reason"], (rule["kernel"], rule["entry"]), _read_kernel(rule["with"]))


def _read_kernel(data: Mapping[str, Any]) -> Kernel:
    file, entry = data["kernel"], data["entry"]
    return Kernel(file, entry, kernel_digest(file, entry), dict(data.get("constants", {})))
