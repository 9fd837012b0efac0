"""The standing of every field outside `inference`: conversion, session, execution, identity, towers."""

from doppler_core.manifest.standing_rows import LABEL, MAY, NOT_HERE, Row, off, rows, used

_CACHE = "session.kvcache"
_KERNELS = "execution.kernels.*"
_KEPT = "keys and values kept between passes; pages, tiers and packed caches are not built"
_TOKENS = "only a model that decodes token by token runs it"
_TOWER = "only a model with this tower reads it"

SESSION: tuple[Row, ...] = (
    *rows("", "modelType", "which model type lowers the manifest", used()),
    *rows("output", "baseDir", "`convert` is told where to write", LABEL),
    *rows("output", "modelBaseId", "the model's name", used()),
    *rows("output", "textOnly", "whether the towers are left out", LABEL, used(), used()),
    *rows("output", "fast", "no conversion is faster for being less exact", off(False)),
    *rows("quantization", "weights embeddings lmHead q4kLayout", "the storage types", used()),
    *rows("quantization", "computePrecision", "agrees with session.compute", used()),
    *rows("quantization", "vision projector audio", "the towers' storage types", NOT_HERE, used(), NOT_HERE),
    *rows(
        "moeConfig",
        "numExperts numExpertsPerToken expertFormat expertIntermediateSize",
        "only a mixture of experts has it",
        NOT_HERE,
        used(),
        used(),
    ),
    *rows(
        "session.compute.defaults",
        "activationDtype",
        "the residual stream of EmbeddingGemma reaches 1.2e5: f16 ends at 65,504",
        used("f32"),
        used(),
        used(),
    ),
    *rows(
        "session.compute.defaults",
        "mathDtype accumDtype outputDtype",
        "arithmetic, sums and results; sums are always f32",
        used("f32"),
        used(),
        used(),
    ),
    *rows(_CACHE, "kvDtype", _KEPT, NOT_HERE, used(), used()),
    *rows(_CACHE, "layout", _KEPT, NOT_HERE, used("contiguous"), used("contiguous")),
    *rows(_CACHE, "pageSize", _KEPT, NOT_HERE, NOT_HERE, NOT_HERE),
    *rows(_CACHE, "tiering.mode", _KEPT, NOT_HERE, off("off"), off("off")),
    *rows(
        _CACHE,
        "tiering.hotWindow tiering.coldPageSize tiering.coldDtype tiering.compression.mode "
        "tiering.compression.blockSize tiering.compression.bitWidth tiering.compression.prodMode "
        "tiering.gating.mode tiering.gating.minAluBwRatio",
        _KEPT,
        NOT_HERE,
    ),
    *rows(_CACHE, "quantization.mode", _KEPT, NOT_HERE, off("none"), off("none")),
    *rows(_CACHE, "quantization.bitWidth quantization.prodMode", _KEPT, NOT_HERE),
    *rows(
        "session.decodeLoop",
        "batchSize stopCheckMode readbackInterval readbackMode ringTokens ringStop ringStaging disableCommandBatching",
        _TOKENS,
        NOT_HERE,
        used(),
        NOT_HERE,
    ),
    *rows(
        "session.perLayerInputs",
        "materialization rowCache.mode rowCache.maxRows rowCache.maxBytes rowCache.decodedDtype prefetch.mode "
        "prefetch.rowsAhead gpuUpload.mode gpuUpload.stagingRows hotCache.mode hotCache.maxTokens hotCache.maxBytes "
        "hotCache.outputDtype",
        "only Gemma 4 E2B has per-layer inputs",
        NOT_HERE,
        used(),
        NOT_HERE,
    ),
    *rows(
        "session",
        "prefillChunkSubmitMode",
        "whether the host waits between the parts of a long prompt",
        NOT_HERE,
        MAY,
        MAY,
    ),
    *rows(
        "session",
        "useFlashPrefillAttention useWideTileQ4KPrefill retainQ4KMaterialization",
        "lets a kernel profile choose, forces nothing",
        MAY,
    ),
    *rows(
        "execution",
        "preLayer prefill postLayer",
        "choose the kernels of the pass",
        used(),
    ),
    *rows("execution", "decode", _TOKENS, NOT_HERE, used(), NOT_HERE),
    *rows(_KERNELS, "kernel entry digest constants", "what runs, and the text it was made for", used()),
    *rows(
        _KERNELS,
        "precision.activationDtype precision.kvDtype precision.inputDtype precision.outputDtype",
        "checked against the kernel's signature",
        used(),
    ),
    *rows("execution.policies", "unsupportedPrecision dtypeTransition unresolvedKernel", "enforced", used()),
    *rows("largeWeights", "gpuResidentOverrides", "weights that a kernel reads are always resident", MAY),
    *rows(
        "manifest.artifactIdentity",
        "sourceCheckpointId weightPackId manifestVariantId artifactCompleteness",
        "names what was converted",
        LABEL,
    ),
    *rows(
        "manifest.visionConfig",
        "vision_architecture hidden_size num_attention_heads num_hidden_layers num_key_value_heads head_dim "
        "intermediate_size patch_size pooling_kernel_size position_embedding_size default_output_length "
        "rms_norm_eps hidden_activation rope_parameters.rope_theta",
        _TOWER,
        NOT_HERE,
        used(),
        NOT_HERE,
    ),
    *rows("manifest.visionConfig", "use_clipped_linears", _TOWER, NOT_HERE, used(True), NOT_HERE),
    *rows("manifest.visionConfig", "standardize", _TOWER, NOT_HERE, off(False), NOT_HERE),
    *rows(
        "manifest.audioConfig",
        "audio_architecture num_hidden_layers hidden_size num_attention_heads conv_kernel_size "
        "subsampling_conv_channels output_proj_dims attention_context_left attention_context_right "
        "attention_chunk_size attention_logit_cap attention_invalid_logits_value residual_weight rms_norm_eps "
        "hidden_act",
        _TOWER,
        NOT_HERE,
        used(),
        NOT_HERE,
    ),
    *rows("manifest.audioConfig", "use_clipped_linears", _TOWER, NOT_HERE, used(True), NOT_HERE),
)
