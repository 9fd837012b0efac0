"""Null resolution: takes a manifest and what its checkpoint says, gives a manifest that says everything itself.

Null means "as the checkpoint says". A value that is set stays, and must not contradict a key that is present.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from doppler_core.errors import ContradictionError, ManifestError
from doppler_core.manifest.canvas_sayings import SECTION, canvas_defaults, canvas_says
from doppler_core.manifest.layer_overrides import without_overrides
from doppler_core.manifest.layer_pattern import SLIDING, full_layers, pattern_types
from doppler_core.manifest.layer_sayings import checkpoint_types, pattern_says
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.problems import found
from doppler_core.manifest.sayings import (
    CLASS_DEFAULTS,
    CONFIG,
    MODULES,
    Saying,
    config_says,
    modules_say,
    text_config,
    tokenizer_says,
)
from doppler_core.manifest.standing import TABLE, rule
from doppler_core.manifest.standing_rows import MODEL_TYPES

_HEAD = "inference.output.embeddingPostprocessor"
_PATTERN = "inference.layerPattern"
_NEEDED = (
    *(
        f"architecture.{name}"
        for name in ("numLayers", "hiddenSize", "intermediateSize", "numAttentionHeads", "numKeyValueHeads")
    ),
    *(f"architecture.{name}" for name in ("headDim", "vocabSize", "maxSeqLen")),
    "inference.attention.queryPreAttnScalar",
    "inference.attention.causal",
    "inference.normalization.rmsNormEps",
    "inference.normalization.rmsNormWeightOffset",
    "inference.ffn.activation",
    "inference.rope.ropeTheta",
    f"{_PATTERN}.type",
)
# EmbeddingGemma's publisher names these lengths in the model card, no file does; its fine-tunes keep them.
_PUBLISHED_DIMENSIONS = {("gemma3_text", 768): (768, 512, 256, 128)}
# A contradiction shows both values whole, lists too.
_SHOWN = 1000
_SAME_ACTIVATION = {"geglu": "gelu", "swiglu": "silu"}


@dataclass(frozen=True)
class Resolution:
    """A null field that got a value: JSON path, the value, the file and key (or rule) it came from."""

    path: str
    value: Any
    source: str


@dataclass(frozen=True)
class Resolved:
    """The manifest with nothing left to the checkpoint, and every field that was filled in."""

    manifest: Manifest
    resolutions: tuple[Resolution, ...]


@dataclass
class _Work:
    """The manifest's JSON on its way, what was filled in, what the checkpoint speaks of, and what contradicts it."""

    data: dict[str, Any]
    model_type: str = ""
    filled: list[Resolution] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def get(self, path: str) -> Any:
        value: Any = self.data
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def fill(self, saying: Saying) -> None:
        if saying.value is None:
            return
        *sections, name = saying.path.split(".")
        target = self.data
        for section in sections:
            if target.get(section) is None:
                target[section] = {}
            target = target[section]
        target[name] = saying.value
        self.filled.append(Resolution(saying.path, saying.value, saying.source))


def resolve(
    manifest: Manifest,
    config: Mapping[str, Any],
    sentence: Mapping[str, Any] | None,
    tokenizer: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
) -> Resolved:
    """Fill the nulls from config.json, the sentence modules (sayings.modules_say), tokenizer_config.json and
    generation_config.json.

    Fields the model type does not have are neither filled nor compared. ContradictionError shows each set value
    that a present key contradicts, with both; ManifestError names the fields that nothing fills, and those whose
    value in the checkpoint no manifest can have.
    """
    config = without_overrides(config)
    work = _Work(manifest_json(manifest))
    _settle_model_type(work, config, sentence)
    _free_scaling_factors(work.data)
    _take(work, config_says(config))
    _take(work, pattern_says(config, work.data["inference"]["layerPattern"]))
    _take(work, canvas_says(config))
    if sentence is not None:
        _take(work, _head_by_field(work, modules_say(sentence, config)))
    if tokenizer is not None:
        _take(work, tokenizer_says(tokenizer))
    if work.wrong:
        raise ContradictionError("\n  ".join(work.wrong))
    for saying in _defaults(work, config, generation or {}):
        settled = work.get(saying.path) is not None or saying.path in work.said
        if not settled and not _not_here(saying.path, work):
            work.fill(saying)
    for factor in ("ropeScalingFactor", "ropeLocalScalingFactor"):
        work.data["inference"]["rope"][factor] = work.data["inference"]["rope"][factor] or 1
    resolved = load_manifest(work.data, "the manifest, resolved from its checkpoint")
    _require(work, resolved)
    _compare_layers(resolved, config)
    return Resolved(resolved, tuple(work.filled))


def _settle_model_type(work: _Work, config: Mapping[str, Any], sentence: Mapping[str, Any] | None) -> None:
    if work.data.get("modelType") is None:
        said = config.get("model_type")
        if sentence is not None:
            work.fill(Saying("modelType", "embedding", MODULES, None))
        else:
            value = "diffusion_gemma" if said == "diffusion_gemma" else "causal"
            work.fill(Saying("modelType", value, f"{CONFIG}: model_type", said))
    work.model_type = str(work.data["modelType"])


def _free_scaling_factors(data: dict[str, Any]) -> None:
    """A factor of 1 beside a null type is part of that null, not a value of its own."""
    rope = data["inference"]["rope"]
    for prefix in ("rope", "ropeLocal"):
        if rope[f"{prefix}ScalingType"] is None:
            rope[f"{prefix}ScalingFactor"] = None


def _take(work: _Work, sayings: Iterable[Saying]) -> None:
    """Fill nulls, note contradictions."""
    for saying in sayings:
        if _not_here(saying.path, work):
            continue
        work.said.add(saying.path)
        current = work.get(saying.path)
        if current is None and not saying.path.startswith(f"{_HEAD}."):
            work.fill(saying)
        elif not _same(current, saying.value):
            work.wrong.append(
                f"{saying.path}: the manifest says {found(current, _SHOWN)}, the checkpoint's {saying.source} says "
                f"{found(saying.original, _SHOWN)}; take the checkpoint's value (null does), or the checkpoint that the "
                "manifest was made for"
            )


def _not_here(path: str, work: _Work) -> bool:
    """Whether the model type has no such field, or the manifest not the section of a canvas, which has flags that no
    checkpoint says."""
    if path.startswith(f"{SECTION}.") and work.get(SECTION) is None:
        return True
    known = rule(path, work.model_type) if path in TABLE else None
    return known is not None and known.standing == "not for this model type"


def _same(current: Any, said: Any) -> bool:
    if isinstance(current, bool) != isinstance(said, bool):
        return False
    if isinstance(said, tuple | list) and isinstance(current, tuple | list):
        return list(current) == list(said)
    if isinstance(current, str):
        current = _SAME_ACTIVATION.get(current, current)
    return bool(current == said)


def _head_by_field(work: _Work, sayings: Iterable[Saying]) -> Iterator[Saying]:
    """The head as one saying where the manifest has none, else field by field, so that a message names one.

    Inside a head that is set, null means "none": it is compared, never filled.
    """
    for saying in sayings:
        if saying.path == _HEAD and work.get(_HEAD) is not None:
            for name, value in saying.value.items():
                yield Saying(f"{_HEAD}.{name}", value, f"{saying.source} ({name})", value)
        else:
            yield saying


def _defaults(work: _Work, config: Mapping[str, Any], generation: Mapping[str, Any]) -> Iterator[Saying]:
    """What holds where the checkpoint's config is silent: what its publisher advises, its class's defaults, then ours.
    They contradict nothing."""
    text, _ = text_config(config)
    yield from canvas_defaults(config, generation)
    kind = str(text.get("model_type"))
    for path, value in CLASS_DEFAULTS.get(kind, {}).items():
        yield Saying(path, value, f"default of {kind}", None)
    yield Saying("text.maxTokens", work.get("architecture.maxSeqLen"), "architecture.maxSeqLen", None)
    if work.model_type != "embedding":
        return
    for path in ("text.addBos", "text.addEos"):
        yield Saying(path, True, "the model type embedding", None)
    yield Saying("text.prompts", {}, "a checkpoint without prompts", None)
    projections = work.get(f"{_HEAD}.projections")
    size = projections[-1]["outputSize"] if projections else work.get("architecture.hiddenSize")
    if isinstance(size, int):
        published = _PUBLISHED_DIMENSIONS.get((kind, size))
        source = "EmbeddingGemma's model card" if published else "the size of the vector"
        yield Saying("text.dimensions", list(published or (size,)), source, None)


def _require(work: _Work, manifest: Manifest) -> None:
    """ManifestError names the fields still null that every model of this type needs; a plugin's type says so itself."""
    if work.model_type not in MODEL_TYPES:
        return
    missing = [path for path in _NEEDED if work.get(path) is None]
    if work.model_type == "embedding" and work.get(_HEAD) is None:
        missing.append(_HEAD)
    types = pattern_types(manifest.inference.layer_pattern, manifest.architecture.num_layers or 0)
    if types is None and work.get(f"{_PATTERN}.type") is not None:
        missing.append(f"{_PATTERN} (what its type needs)")
    if SLIDING in (types or ()) and work.get("inference.attention.slidingWindow") is None:
        missing.append("inference.attention.slidingWindow")
    if missing:
        raise ManifestError(
            f"{', '.join(missing)}: null in the manifest, and neither the checkpoint's {CONFIG} nor its modules "
            "say it; set it in the manifest"
        )


def _compare_layers(manifest: Manifest, config: Mapping[str, Any]) -> None:
    """The pattern as a whole against the checkpoint's: it is right only if every layer is."""
    layers = manifest.architecture.num_layers or 0
    theirs = checkpoint_types(config, layers)
    ours = pattern_types(manifest.inference.layer_pattern, layers)
    if theirs is not None and ours != theirs[0]:
        types, source = theirs
        raise ContradictionError(
            f"{_PATTERN}: the manifest's full layers are {full_layers(ours or ())}, those of the checkpoint's "
            f"{source} are {full_layers(types)} of {len(types)} layers"
        )
