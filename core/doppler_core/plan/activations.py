"""The type of activations: a manifest that asks for f16, as it is lowered for what computes in f32.

Takes a resolved manifest, gives one whose activations are f32 and what was changed, as findings. Nothing rounds to f16
any more: results are those of the same numbers, computed more closely. It knows no device.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from doppler_core.errors import PlanError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.plan.op import Finding

_STANDING = "numerics changed"

# Kernels for f16 activations, and those that do the same with f32 ones.
WIDER: Mapping[tuple[str, str], tuple[str, str]] = {
    ("fused_matmul_q4_widetile_f16a.wgsl", "main"): (
        "fused_matmul_q4_batched_multicol_shared.wgsl",
        "main",
    ),
    ("attention_head512_f16.wgsl", "main"): ("attention_head512_f16kv.wgsl", "main"),
}


def narrow(manifest: Manifest) -> bool:
    """Whether the manifest asks for f16 activations."""
    return manifest.session.compute.defaults.activation_dtype == "f16"


def with_f32_activations(manifest: Manifest, reason: str) -> tuple[Manifest, tuple[Finding, ...]]:
    """The manifest with f32 in place of f16 activations, and what that changes; as it is where it asks for f32.

    Kernels for f16 activations make room for their WIDER ones, and casts go. reason: why, for who reads the plan.
    """
    if not narrow(manifest):
        return manifest, ()
    data = manifest_json(manifest)
    data["quantization"]["computePrecision"] = "f32"
    defaults = data["session"]["compute"]["defaults"]
    data["session"]["compute"]["defaults"] = dict.fromkeys(defaults, "f32")
    findings = [Finding("session.compute", _STANDING, f"activations are f32 in place of f16: {reason}")]
    execution = data["execution"]
    for key, spec in execution["kernels"].items():
        findings += _widen(key, spec)
    for name in ("preLayer", "decode", "prefill", "postLayer"):
        kept = [_without_casts(item) for item in execution[name]]
        if kept != execution[name]:
            findings.append(Finding(f"execution.{name}: cast", "void", "activations are f32 all the way"))
        execution[name] = [item for item in kept if item]
    return load_manifest(data), tuple(findings)


def require_f32(manifest: Manifest) -> None:
    """PlanError for a manifest that asks for f16 activations."""
    if narrow(manifest):
        raise PlanError(
            "session.compute.defaults.activationDtype is f16, and no kernels with f16 activations are built: expected "
            "f32; a kernel profile with `activations` f32, or NumPy, runs this manifest in f32"
        )


def _widen(key: str, spec: dict[str, Any]) -> Iterator[Finding]:
    precision = spec.get("precision") or {}
    for name in ("activationDtype", "inputDtype", "outputDtype"):
        if precision.get(name) == "f16":
            del precision[name]
    found = WIDER.get((spec["kernel"], spec["entry"]))
    if found is not None:
        replaced = f"{spec['kernel']}#{spec['entry']}"
        spec["kernel"], spec["entry"] = found
        spec["digest"] = kernel_digest(*found)
        reason = f"{'#'.join(found)}, for f32 activations, in place of {replaced}"
        yield Finding(f"execution.kernels.{key}", _STANDING, reason)


def _without_casts(item: Any) -> Any:
    """A step, nothing in place of one that casts, or a group without such steps."""
    if isinstance(item, dict):
        return {**item, "steps": [step for step in item["steps"] if step[0] != "cast"]}
    return None if item[0] == "cast" else item
