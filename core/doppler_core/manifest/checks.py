"""Fields that must agree with each other: takes a Manifest, gives one sentence per disagreement."""

import math
from collections import Counter
from collections.abc import Iterator

from doppler_core.manifest.execution import Execution, Group
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.problems import found, nearest


def contradictions_within(manifest: Manifest) -> Iterator[str]:
    """Each sentence begins with a JSON path. A null field agrees with everything."""
    yield from _steps(manifest.execution)
    yield from _groups(manifest)
    yield from _layer_pattern(manifest)
    yield from _attention(manifest)
    yield from _rope(manifest)
    yield from _head(manifest)
    yield from _experts_and_canvas(manifest)
    yield from _session(manifest)
    yield from _text(manifest)


def _steps(execution: Execution) -> Iterator[str]:
    for where, step in execution.steps():
        spec = execution.kernels.get(step.kernel)
        if spec is None:
            advice = nearest(step.kernel, tuple(execution.kernels)) if execution.kernels else "there are none"
            yield f'{where}[1]: no kernel "{step.kernel}" in execution.kernels; {advice}'
        elif step.op == "cast" and not (
            spec.precision and spec.precision.input_dtype and spec.precision.output_dtype
        ):
            key = f"execution.kernels.{step.kernel}.precision"
            yield f"{key}: the cast at {where} needs inputDtype and outputDtype here"


def _groups(manifest: Manifest) -> Iterator[str]:
    layers = manifest.architecture.num_layers
    for name, items in (("decode", manifest.execution.decode), ("prefill", manifest.execution.prefill)):
        seen: dict[int, int] = {}
        for index, group in enumerate(items):
            if not isinstance(group, Group):
                continue
            where = f"execution.{name}[{index}].layers"
            if not group.layers:
                yield f"{where}: expected at least one layer, found []"
            for layer, times in Counter(group.layers).items():
                if times > 1 or layer in seen:
                    other = f"execution.{name}[{seen.get(layer, index)}]"
                    yield f"{where}: layer {layer} is listed twice (also in {other}); a layer has one list"
                if layers is not None and layer >= layers:
                    yield f"{where}: layer {layer} does not exist; architecture.numLayers is {layers}"
                seen[layer] = index


def _layer_pattern(manifest: Manifest) -> Iterator[str]:
    pattern, layers = manifest.inference.layer_pattern, manifest.architecture.num_layers
    where = "inference.layerPattern"
    owners = {
        "period": ("every_n", pattern.period),
        "offset": ("every_n", pattern.offset),
        "globalPattern": ("alternating", pattern.global_pattern),
        "layerTypes": ("custom", pattern.layer_types),
    }
    for name, (owner, value) in owners.items():
        if pattern.type not in (None, owner) and value is not None:
            yield f'{where}.{name}: expected null, as the type is "{pattern.type}", found {found(value)}'
    if pattern.period is not None and pattern.offset is not None and pattern.offset >= pattern.period:
        yield f"{where}.offset: expected less than the period {pattern.period}, found {pattern.offset}"
    if pattern.layer_types is not None and layers is not None and len(pattern.layer_types) != layers:
        count = len(pattern.layer_types)
        yield f"{where}.layerTypes: expected one entry per layer, {layers}, found {count}"


def _attention(manifest: Manifest) -> Iterator[str]:
    sizes, scalar = manifest.architecture, manifest.inference.attention.query_pre_attn_scalar
    heads, pairs = sizes.num_attention_heads, sizes.num_key_value_heads
    if heads is not None and pairs is not None and heads % pairs:
        yield (
            f"architecture.numKeyValueHeads: expected a divisor of the {heads} numAttentionHeads, found {pairs}"
        )
    # The scalar is the head's size, its root is already taken once: a known slip of hand-written manifests.
    size = sizes.head_dim
    if scalar is not None and size is not None and size > 1 and math.isclose(scalar, math.sqrt(size)):
        yield (
            f"inference.attention.queryPreAttnScalar: {scalar:g} is the square root of headDim; "
            f"scores are scaled by 1 / sqrt(queryPreAttnScalar), so {size} is meant"
        )


def _rope(manifest: Manifest) -> Iterator[str]:
    rope, where = manifest.inference.rope, "inference.rope"
    for kind, factor, prefix in (
        (rope.rope_scaling_type, rope.rope_scaling_factor, "rope"),
        (rope.rope_local_scaling_type, rope.rope_local_scaling_factor, "ropeLocal"),
    ):
        if kind is None and factor != 1:
            yield f"{where}.{prefix}ScalingFactor: expected 1 while {prefix}ScalingType is null, found {factor:g}"
    yarn = {
        "yarnBetaFast": rope.yarn_beta_fast,
        "yarnBetaSlow": rope.yarn_beta_slow,
        "yarnOriginalMaxPos": rope.yarn_original_max_pos,
    }
    longrope = {
        "longropeShortFactor": rope.longrope_short_factor,
        "longropeLongFactor": rope.longrope_long_factor,
        "longropeOriginalMaxPos": rope.longrope_original_max_pos,
    }
    for kind, fields in (("yarn", yarn), ("longrope", longrope)):
        for name, value in fields.items():
            if (rope.rope_scaling_type == kind) != (value is not None):
                expected = "a value" if value is None else "null"
                yield f"{where}.{name}: expected {expected}, as ropeScalingType is {found(rope.rope_scaling_type)}"


def _head(manifest: Manifest) -> Iterator[str]:
    head, where = manifest.inference.output, "inference.output"
    if head.scale_embeddings and head.embedding_scale is not None:
        yield f"{where}.embeddingScale: expected null while scaleEmbeddings is true, found {head.embedding_scale:g}"
    if head.embedding_postprocessor is None:
        return
    size, origin = manifest.architecture.hidden_size, "architecture.hiddenSize"
    for index, projection in enumerate(head.embedding_postprocessor.projections):
        path = f"{where}.embeddingPostprocessor.projections[{index}]"
        if size is not None and projection.input_size != size:
            yield f"{path}.inputSize: expected {size}, as {origin} gives, found {projection.input_size}"
        size, origin = projection.output_size, f"projections[{index}].outputSize"
    lengths = manifest.text.dimensions
    if lengths and size is not None and lengths[0] != size:
        yield f"text.dimensions: expected {size} first, as {origin} gives, found {lengths[0]}"


def _experts_and_canvas(manifest: Manifest) -> Iterator[str]:
    moe, canvas = manifest.moe_config, manifest.inference.diffusion_gemma
    if moe is not None and moe.num_experts_per_token > moe.num_experts:
        yield (
            f"moeConfig.numExpertsPerToken: expected at most the {moe.num_experts} numExperts, "
            f"found {moe.num_experts_per_token}"
        )
    if canvas is None:
        return
    where = "inference.diffusionGemma"
    low, high = canvas.t_min, canvas.t_max
    if low is not None and high is not None and low >= high:
        yield f"{where}.tMin: expected less than tMax {high:g}, found {low:g}"
    if canvas.eos_token_ids == ():
        yield f"{where}.eosTokenIds: expected at least one token id, found []"
    vocabulary = manifest.architecture.vocab_size
    for name, ids in (("eosTokenIds", canvas.eos_token_ids or ()), ("padTokenId", (canvas.pad_token_id,))):
        for number in ids:
            if vocabulary is not None and number is not None and number >= vocabulary:
                yield (
                    f"{where}.{name}: expected a token id below architecture.vocabSize {vocabulary}, "
                    f"found {number}"
                )


def _session(manifest: Manifest) -> Iterator[str]:
    session, compute = manifest.session, manifest.quantization.compute_precision
    activation = session.compute.defaults.activation_dtype
    if compute != activation:
        yield (
            f'quantization.computePrecision: expected "{activation}", '
            f'as session.compute.defaults.activationDtype says, found "{compute}"'
        )
    loop = session.decode_loop
    if loop.readback_mode == "overlapped" and loop.ring_staging < 2:
        yield f"session.decodeLoop.ringStaging: overlapped readback needs at least 2, found {loop.ring_staging}"


def _text(manifest: Manifest) -> Iterator[str]:
    text, longest = manifest.text, manifest.architecture.max_seq_len
    if text.default_prompt_name is not None and text.default_prompt_name not in (text.prompts or {}):
        known = nearest(text.default_prompt_name, tuple(text.prompts or {"none": ""}))
        yield f'text.defaultPromptName: no prompt "{text.default_prompt_name}" in text.prompts; {known}'
    if text.max_tokens is not None and longest is not None and text.max_tokens > longest:
        yield f"text.maxTokens: expected at most architecture.maxSeqLen {longest}, found {text.max_tokens}"
    if text.dimensions is not None:
        falling = all(a > b for a, b in zip(text.dimensions, text.dimensions[1:], strict=False))
        if not text.dimensions or not falling:
            yield f"text.dimensions: expected lengths from the longest to the shortest, found {list(text.dimensions)}"
