"""The standing of every field outside `inference`: conversion, session, execution, identity, towers."""

from doppler_core.manifest.standing_rows import LABEL, MAY, NOT_HERE, Row, not_here, off, rows, used

_CACHE = "session.kvcache"
_LOOP = "session.decodeLoop"
_PER_LAYER = "session.perLayerInputs"
_KERNELS = "execution.kernels.*"
_KEPT = "keys and values kept between passes; pages, tiers and packed caches are not built"
_TOKENS = "only a model that decodes token by token runs it"
_NO_TOKENS = not_here(_TOKENS)
_NO_INPUTS = not_here("only Gemma 4 E2B has per-layer inputs")
_TOWER = "the tower is stored and verified; no phase of a plan runs it"

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
        "numExperts numExpertsPerToken expertIntermediateSize",
        "only a mixture of experts has it",
        NOT_HERE,
        used(),
        used(),
    ),
    *rows(
        "moeConfig",
        "expertFormat",
        "Gemma's experts are those of a layer in one tensor",
        NOT_HERE,
        used("gemma4"),
        used("gemma4"),
    ),
    *rows(
        "session.compute.defaults",
        "activationDtype",
        "what one op hands to the next; the residual stream of EmbeddingGemma reaches 1.2e5, and f16 ends at 65,504",
        used("f32"),
        used("f32"),
        used(),
    ),
    *rows(
        "session.compute.defaults",
        "mathDtype accumDtype outputDtype",
        "arithmetic, sums and results; arithmetic and sums are always f32",
        used("f32"),
        used("f32"),
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
        _LOOP,
        "batchSize readbackInterval",
        "their product is the most tokens between two readbacks",
        _NO_TOKENS,
        used(),
        _NO_TOKENS,
    ),
    *rows(
        _LOOP,
        "readbackMode disableCommandBatching",
        "whether tokens are read back while the next are made, and each token by itself",
        _NO_TOKENS,
        used(),
        _NO_TOKENS,
    ),
    *rows(
        _LOOP,
        "stopCheckMode ringTokens ringStop ringStaging",
        "lets stops be found late and buffers be kept; nothing behind a stop is shown, the executor counts its buffers",
        _NO_TOKENS,
        MAY,
        _NO_TOKENS,
    ),
    *rows(
        _PER_LAYER,
        "materialization",
        "where the table of per-layer inputs lies",
        _NO_INPUTS,
        used(),
        _NO_INPUTS,
    ),
    *rows(
        _PER_LAYER,
        "rowCache.mode rowCache.maxRows rowCache.maxBytes rowCache.decodedDtype hotCache.mode hotCache.maxTokens "
        "hotCache.maxBytes hotCache.outputDtype",
        "lets rows of per-layer inputs be kept; the system keeps the parts of the file that are in use",
        _NO_INPUTS,
        MAY,
        _NO_INPUTS,
    ),
    *rows(
        _PER_LAYER,
        "prefetch.mode prefetch.rowsAhead gpuUpload.mode gpuUpload.stagingRows",
        "lets rows of per-layer inputs be read ahead; they are uploaded with each step",
        _NO_INPUTS,
        MAY,
        _NO_INPUTS,
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
        "rms_norm_eps hidden_activation rope_parameters.rope_theta use_clipped_linears standardize",
        _TOWER,
        NOT_HERE,
        LABEL,
        NOT_HERE,
    ),
    *rows(
        "manifest.audioConfig",
        "audio_architecture num_hidden_layers hidden_size num_attention_heads conv_kernel_size "
        "subsampling_conv_channels output_proj_dims attention_context_left attention_context_right "
        "attention_chunk_size attention_logit_cap attention_invalid_logits_value residual_weight rms_norm_eps "
        "hidden_act use_clipped_linears",
        _TOWER,
        NOT_HERE,
        LABEL,
        NOT_HERE,
    ),
)
