"""The type of activations: what computes in f32 whatever the session says, and a manifest that asks for f16 lowered for
what has no f16.

A value between two ops is an activation. f16 halves what ops read and write; they compute in f32 all the same. It knows
no device.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.plan.kernel_tables.f16 import TWINS
from doppler_core.plan.op import Finding

_STANDING = "numerics changed"

# Roles that read and write f32 in every session. A router decides between scores that may lie closer than the steps of
# f16 (1/32 around 40), and one expert in place of another is no rounding error. Logits feed exponentials, whose sums go
# over the whole vocabulary, and the canvas's tallies and entropies are made of them.
WIDE = frozenset({"router_norm", "router", "final_norm", "lm_head", "lm_head_prefill"})

# Kernels for f16 activations, and those that do the same with f32 ones, by file: entries are the same.
WIDER: Mapping[str, str] = {twin: file for file, twin in TWINS.items()}


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


def f16_findings(manifest: Manifest) -> Iterator[Finding]:
    """What a session of f16 activations says that is done more closely than it asks for."""
    if narrow(manifest):
        yield Finding(
            "session.compute.defaults",
            _STANDING,
            "f16 between ops alone: products and sums, norms, softmax, the router, logits and what is drawn are f32",
        )


def _widen(key: str, spec: dict[str, Any]) -> Iterator[Finding]:
    precision = spec.get("precision") or {}
    for name in ("activationDtype", "inputDtype", "outputDtype"):
        if precision.get(name) == "f16":
            del precision[name]
    found, entry = WIDER.get(spec["kernel"]), spec["entry"]
    if found is not None:
        reason = f"{found}#{entry}, for f32 activations, in place of {spec['kernel']}#{entry}"
        spec["kernel"], spec["digest"] = found, kernel_digest(found, entry)
        yield Finding(f"execution.kernels.{key}", _STANDING, reason)


def _without_casts(item: Any) -> Any:
    """A step, nothing in place of one that casts, or a group without such steps."""
    if isinstance(item, dict):
        return {**item, "steps": [step for step in item["steps"] if step[0] != "cast"]}
    return None if item[0] == "cast" else item
