"""What a plan says beside its ops: steps that are void, kernels that no step uses, tensors that no op reads."""

from collections.abc import Iterator, Mapping, Sequence

from doppler_core.errors import PlanError
from doppler_core.plan.names import TensorNames
from doppler_core.plan.op import Finding
from doppler_core.plan.steps import Place, Steps
from doppler_core.weights.policy import role

_TOWERS = {"vision": "the vision tower", "audio": "the audio tower", "projector": "the towers' projections"}


def step_findings(phases: Sequence[Steps]) -> Iterator[Finding]:
    """Void steps and kernels that no step uses, over all phases; PlanError on a step that nothing asked for.

    Steps outside the layers belong to every phase, those of a list to every phase that runs it: one of these is enough
    to use them, or to say why they are void.
    """
    asked = {(_list(steps, place), place) for steps in phases for place in steps.asked}
    reasons = {
        (_list(steps, place), place): reason for steps in phases for place, reason in steps.voided.items()
    }
    void: dict[tuple[str, str, str], set[int]] = {}
    outside: dict[str, str] = {}
    for steps in phases:
        for place in steps.declared:
            if (_list(steps, place), place) in asked:
                continue
            reason = reasons.get((_list(steps, place), place))
            if reason is None:
                raise PlanError(
                    f"step {place} is declared, but this architecture has no such op; remove the step"
                )
            if place.layer is None:
                outside[place.role] = reason
            else:
                void.setdefault((steps.phase_list, place.role, reason), set()).add(place.layer)
    for name, reason in outside.items():
        yield Finding(f"execution: {name}", "void", reason)
    for (phase_list, name, reason), layers in void.items():
        yield Finding(f"execution.{phase_list}: {name} of layers {_ranges(sorted(layers))}", "void", reason)
    used = {steps.declared[place].kernel for steps in phases for place in steps.asked}
    for key in phases[0].kernels:
        if key not in used:
            yield Finding(f"execution.kernels.{key}", "unused", "no step of the phases that run names it")


def _list(steps: Steps, place: Place) -> str:
    """The list that a step stands in, "" for those outside the layers."""
    return "" if place.layer is None else steps.phase_list


def tensor_findings(names: TensorNames, reasons: Mapping[str, str]) -> Iterator[Finding]:
    """Tensors that the model has and no op reads: the towers together, others by name.

    `reasons` say why one is left out, by its name.
    """
    unread = sorted(names.unread())
    for kind, tower in _TOWERS.items():
        count = sum(role(name) == kind for name in unread)
        if count:
            yield Finding(
                f"{count} tensors of {tower}",
                "not loaded",
                "stored and verified; no phase of this plan runs it",
            )
    for name in unread:
        if role(name) not in _TOWERS:
            yield Finding(
                f"tensor {name}", "not loaded", reasons.get(name, "no op of this architecture reads it")
            )


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words: 15-34, or 3, 7-9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
