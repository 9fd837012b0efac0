"""An engine out of its parts: plan, kernel profile, memory, executor, driver. It knows no names and no caches.

Takes a model's files, its manifest and what finds a model type; gives an Engine that owns what it opened. What
can be refused is refused before weights are loaded: digests, limits, memory.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from doppler_core.device.adapters import GpuAdapter, choose_adapter
from doppler_core.device.executor import Executor
from doppler_core.device.forked import note_gpu_use, refuse_after_fork
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.engine import memory
from doppler_core.engine.abilities import with_chat
from doppler_core.engine.choice import read_defaults
from doppler_core.engine.engine import Engine
from doppler_core.engine.fitting import Fixed, fit
from doppler_core.engine.model_type import ModelType, Opened
from doppler_core.engine.request import Capabilities
from doppler_core.errors import (
    FileFormatError,
    LimitError,
    ManifestError,
    NoAdapterError,
    PlanError,
    SettingsError,
)
from doppler_core.manifest.digest import verify_digests
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.plan.activations import WIDER, with_f32_activations
from doppler_core.plan.check import check
from doppler_core.plan.cost import gpu_resident, numpy_matrices, numpy_resident
from doppler_core.plan.kernel_tables.f16 import FEATURE
from doppler_core.plan.op import Finding, Plan
from doppler_core.plan.profile import AdapterFacts, Profile, apply_profile, choose_profile
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings, Progress
from doppler_core.text.chat import choose_format
from doppler_core.text.tokenizer import Tokenizer
from doppler_core.weights.artifact_format import MANIFEST_FILE
from doppler_core.weights.model_files import ModelFiles

logger = logging.getLogger("doppler_plugins")

ModelTypeOf = Callable[[Manifest], ModelType]

_CHUNK = 256  # rows of a step: enough to keep matrix products busy, and few enough to make others wait little
_SLOTS = 4
_CONTEXT_LENGTH = 8192  # of a model that keeps keys and values of it


@dataclass(frozen=True)
class Lowered:
    """A model as its device would run it. `adapter` None = NumPy. longest: tokens of a sequence, whatever there is room
    for."""

    files: ModelFiles
    manifest: Manifest
    model_type: ModelType
    plan: Plan
    room: Room
    adapter: GpuAdapter | None
    longest: int


def lower_model(
    files: ModelFiles, manifest: Manifest | None, model_type_of: ModelTypeOf, settings: EngineSettings
) -> Lowered:
    """Lower a model's own manifest, or the one given, verify digests, put the kernel profile's kernels in."""
    if manifest is None:
        manifest = load_manifest(files.manifest, str(files.path / MANIFEST_FILE))
    model_type = model_type_of(manifest)
    adapter = _choose_adapter(settings.device, manifest.output.model_base_id or files.path.name)
    left = memory.room(settings.memory_limit) if _counts(adapter, settings.memory_limit) else None
    capabilities = model_type.capabilities(manifest)
    wanted = _wanted(capabilities, settings, None if adapter is None else left)
    facts = _facts(adapter, manifest)
    named = adapter is not None or settings.kernel_profile is not None
    profile = choose_profile(settings.kernel_profile, facts) if named else None
    computed, changes = _as_computed(manifest, adapter, profile)
    notes: dict[str, None] = {}

    def lower(room: Room) -> Plan:
        sized = _with_context_length(computed, room.context_length)
        plan = check(model_type.lower(sized, files.tensors, room))
        plan = replace(plan, findings=(*changes, *plan.findings))
        notes.update(dict.fromkeys(verify_digests(manifest, _kernels_run(manifest, plan))))
        return plan if profile is None else check(apply_profile(plan, profile, facts.storage_buffers))

    try:
        fixed = Fixed(settings.slots is not None, settings.context_length is not None)
        room, plan = fit(wanted, fixed, lower, _numpy_least if adapter is None else gpu_resident, left)
    except (ManifestError, PlanError) as error:
        raise type(error)(f"{files.path}: {error}") from error
    for note in notes:
        logger.info("%s: %s", plan.model, note)
    opened = _with_context_length(computed, room.context_length)
    return Lowered(files, opened, model_type, plan, room, adapter, capabilities.context_length)


def assemble(lowered: Lowered, settings: EngineSettings, progress: Progress | None = None) -> Engine:
    """Open an engine; LimitError before anything is loaded. What was opened is closed again if a later part fails."""
    files, manifest, plan = lowered.files, lowered.manifest, lowered.plan
    capabilities = lowered.model_type.capabilities(manifest)
    config = files.tokenizer_files.get("generation_config.json") if capabilities.generates else None
    defaults = read_defaults(config)
    if "tokenizer.json" not in files.tokenizer_files:
        raise FileFormatError(
            f"{files.path}: the artifact has no tokenizer.json: convert the checkpoint again"
        )
    tokenizer = Tokenizer(files.tokenizer_files["tokenizer.json"], _vocabulary(plan))
    chat_format = choose_format(
        _declared_format(manifest), files.tokenizer_files if capabilities.generates else {}, tokenizer
    )
    if capabilities.generates:
        capabilities = with_chat(capabilities, chat_format, tokenizer)
    memory.give_back()  # building Gemma's tokenizer leaves three times of what it keeps
    executor, reserved = _execute(lowered, settings, progress)

    def closing() -> None:
        try:
            executor.close()
        finally:
            memory.release(reserved)
            memory.give_back()

    try:
        return Engine(
            model_id=plan.model or files.path.name,
            identity=_identity(lowered),
            capabilities=capabilities,
            plan=plan,
            driver=lowered.model_type.driver(
                Opened(
                    executor,
                    plan,
                    tokenizer,
                    manifest,
                    lowered.room,
                    files.tokenizer_files,
                    defaults,
                    chat_format,
                    lowered.longest,
                )
            ),
            device=executor.device,
            memory_bytes=executor.memory_bytes,
            closing=closing,
            tokenizer=tokenizer,
            defaults=defaults,
        )
    except BaseException:
        closing()
        raise


def _execute(
    lowered: Lowered, settings: EngineSettings, progress: Progress | None
) -> tuple[Executor, object]:
    """The executor, and the key of its share of the memory budget."""
    plan, tensors, adapter, limit = (
        lowered.plan,
        lowered.files.tensors,
        lowered.adapter,
        settings.memory_limit,
    )
    rows, slots = plan.largest.rows, plan.largest.sequences
    if adapter is None:
        # Matrices that do not fit are kept packed and expanded a block at a time, so that less room is slower and no
        # error, as long as there is enough for the buffers of a step.
        need, matrices, left = numpy_resident(plan), numpy_matrices(plan), memory.room(limit)
        held = need if left is None else max(need - matrices, min(need, left))
        reserved = memory.reserve(held, plan.model, limit)
        room = None if held == need else held - (need - matrices)
        return _or_release(
            reserved,
            lambda: NumpyExecutor(
                plan, tensors, max_rows=rows, max_slots=slots, room=room, progress=progress
            ),
        )
    reserved = memory.reserve(gpu_resident(plan), plan.model, limit) if _counts(adapter, limit) else None

    def open_gpu() -> Executor:
        from doppler_core.device.wgpu_executor import open_wgpu  # loads the native library

        return open_wgpu(plan, tensors, adapter, max_rows=rows, max_slots=slots, progress=_loading(progress))

    return _or_release(reserved, open_gpu)


def _or_release(reserved: object, opening: Callable[[], Executor]) -> tuple[Executor, object]:
    try:
        return opening(), reserved
    except MemoryError as error:
        memory.release(reserved)
        raise LimitError(
            f"the system gives no more memory while the model is loaded ({error}): close other engines or programs, "
            "or lower memory_limit or context_length"
        ) from error
    except BaseException:
        memory.release(reserved)
        raise


def _loading(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress("loading weights", done, total)


def _counts(adapter: GpuAdapter | None, limit: int | None) -> bool:
    """Whether the model takes the memory that the system calls free, or that was asked for: a graphics card has its
    own."""
    return adapter is None or limit is not None or adapter.type != "DiscreteGPU"


def _numpy_least(plan: Plan) -> int:
    """Bytes without which there is no step: matrices that do not fit stay packed."""
    return numpy_resident(plan) - numpy_matrices(plan)


def _wanted(capabilities: Capabilities, settings: EngineSettings, left: int | None) -> Room:
    """The room for a model where memory is not short."""
    longest = capabilities.context_length
    asked = settings.context_length
    if asked is not None and asked > longest:
        raise SettingsError(f"context_length={asked}: this model takes {longest} tokens at most")
    context = asked or (min(longest, _CONTEXT_LENGTH) if capabilities.generates else longest)
    slots = settings.slots or _SLOTS
    return Room(context, slots, min(_CHUNK, context), snapshots=slots, memory=left)


def _choose_adapter(device: str, model: str) -> GpuAdapter | None:
    """The GPU adapter that `device` means, None = NumPy: what "auto" is where there is no hardware GPU adapter."""
    if device == "numpy":
        return None
    try:
        refuse_after_fork()
        adapter = choose_adapter(device)
        note_gpu_use()
        return adapter
    except (NoAdapterError, ImportError, OSError) as error:
        if device != "auto":
            raise
        logger.info("%s runs on NumPy: %s", model, error)
        return None


def _facts(adapter: GpuAdapter | None, manifest: Manifest) -> AdapterFacts:
    weights = "as stored" if manifest.quantization.weights is None else "declared"
    if adapter is None:
        return AdapterFacts("CPU", 0, weights=weights)
    from doppler_core.device.probe import probe

    return AdapterFacts(
        adapter.type,
        probe(adapter).subgroup_size,
        adapter.native.limits["max-storage-buffers-per-shader-stage"],
        weights,
    )


def _as_computed(
    manifest: Manifest, adapter: GpuAdapter | None, profile: Profile | None
) -> tuple[Manifest, tuple[Finding, ...]]:
    """The manifest with the activations that the executor computes with, and what that changes."""
    if adapter is None:
        return with_f32_activations(manifest, "NumPy computes in f32")
    if profile is not None and profile.activations == "f32":
        return with_f32_activations(manifest, f"the kernel profile {profile.name} says so")
    if FEATURE not in adapter.native.features:
        return with_f32_activations(manifest, f"{adapter.name} has no {FEATURE}")
    return manifest, ()


def _kernels_run(manifest: Manifest, plan: Plan) -> set[str]:
    """The manifest's kernels that an op of the plan, not yet changed by a profile, runs, or runs the twin of."""
    runs = {(op.kernel.file, op.kernel.entry, op.kernel.digest) for op in plan.ops()}
    twins = {(WIDER[op.kernel.file], op.kernel.entry) for op in plan.ops() if op.kernel.file in WIDER}
    return {
        key
        for key, spec in manifest.execution.kernels.items()
        if (spec.kernel, spec.entry, spec.digest) in runs or (spec.kernel, spec.entry) in twins
    }


def _with_context_length(manifest: Manifest, length: int) -> Manifest:
    if length == (manifest.text.max_tokens or manifest.architecture.max_seq_len):
        return manifest
    return manifest.model_copy(update={"text": manifest.text.model_copy(update={"max_tokens": length})})


def _declared_format(manifest: Manifest) -> str | None:
    template = manifest.inference.chat_template
    return template.type if template.enabled else None


def _vocabulary(plan: Plan) -> int:
    """Rows of the embedding table: an id beyond them would read past it."""
    return min(op.weights[0].shape[0] for op in plan.ops() if op.meaning == "gather")


def _identity(lowered: Lowered) -> str:
    """Changes with whatever changes a vector: weights, manifest, kernels, executor; not with batch or thread."""
    facts: dict[str, Any] = {
        "artifact": lowered.files.identity,
        "manifest": manifest_json(lowered.manifest),
        "executor": "numpy" if lowered.adapter is None else "wgpu",
    }
    if lowered.adapter is not None:
        facts["kernels"] = [
            [str(op.kernel), op.kernel.digest, sorted(op.kernel.constants.items())]
            for op in lowered.plan.ops()
        ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
