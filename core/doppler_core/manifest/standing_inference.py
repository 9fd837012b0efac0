"""The standing of every field of `inference`, `architecture` and `text`."""

from doppler_core.manifest.standing_rows import LABEL, NOT_HERE, Row, off, rows, used

_ATTENTION = "inference.attention"
_NORM = "inference.normalization"
_FFN = "inference.ffn"
_ROPE = "inference.rope"
_OUT = "inference.output"
_POST = "inference.output.embeddingPostprocessor"
_PATTERN = "inference.layerPattern"

INFERENCE: tuple[Row, ...] = (
    *rows(_ATTENTION, "queryPreAttnScalar", "scales the scores", used()),
    *rows(_ATTENTION, "attnLogitSoftcapping", "caps the scores", used(), off(), off()),
    *rows(_ATTENTION, "slidingWindow", "bounds the sliding layers", used()),
    *rows(_ATTENTION, "queryKeyNorm", "normalises queries and keys", used(), used(True), used(True)),
    *rows(_ATTENTION, "valueNorm", "normalises values; Gemma 3 has no such norm", off(False), used(), used()),
    *rows(
        _ATTENTION,
        "causal",
        "an embedding sees the whole text, a generator what came before",
        used(False),
        used(True),
        used(True),
    ),
    *rows(_ATTENTION, "attentionBias", "no kernel here adds biases to q, k, v or o", off(False)),
    *rows(_ATTENTION, "attentionOutputGate", "no kernel here gates the attention's output", off(False)),
    *rows(_NORM, "rmsNormEps rmsNormWeightOffset", "the numerics of every norm", used()),
    *rows(
        _NORM,
        "postAttentionNorm preFeedforwardNorm postFeedforwardNorm",
        "a Gemma block has all three: without one it is another architecture",
        used(True),
    ),
    *rows(_FFN, "activation", "the tanh form of GELU is what the kernels compute", used("gelu", "geglu")),
    *rows(_FFN, "gatedActivation", "a Gemma block is gated", used(True)),
    *rows(
        _FFN,
        "branchMode",
        "which feed-forward branches a layer has",
        used("auto", "dense"),
        used("auto", "dense", "dense_plus_moe"),
        used("auto", "dense_plus_moe"),
    ),
    *rows(_FFN, "useDoubleWideMlp", "widens the layers that share K and V", off(False), used(), off(False)),
    *rows(_FFN, "swigluLimit", "no kernel here clamps the gate", off()),
    *rows(_ROPE, "ropeTheta ropeLocalTheta", "the base of the rotation, per layer type", used()),
    *rows(
        _ROPE, "ropeInterleaved mropeInterleaved", "rotation pairs element i with i + width / 2", off(False)
    ),
    *rows(_ROPE, "mropeSection", "positions have one axis", off()),
    *rows(
        _ROPE,
        "partialRotaryFactor ropeFrequencyBaseDim",
        "which part of a head rotates; Gemma 3 rotates all of it",
        off(),
        used(),
        used(),
    ),
    *rows(
        _ROPE,
        "ropeLocalPartialRotaryFactor ropeLocalFrequencyBaseDim",
        "the sliding layers of every Gemma rotate the whole head",
        off(),
    ),
    *rows(
        _ROPE,
        "ropeScalingType ropeLocalScalingType",
        "positions may be divided by a factor; other scalings are not built",
        used("linear"),
    ),
    *rows(_ROPE, "ropeScalingFactor ropeLocalScalingFactor", "divides the positions", used()),
    *rows(
        _ROPE,
        "yarnBetaFast yarnBetaSlow yarnOriginalMaxPos ropeLocalYarnBetaFast ropeLocalYarnBetaSlow "
        "ropeLocalYarnOriginalMaxPos",
        "YaRN scaling is not built",
        off(),
    ),
    *rows(
        _ROPE,
        "longropeShortFactor longropeLongFactor longropeOriginalMaxPos",
        "LongRoPE scaling is not built",
        off(),
    ),
    *rows(_OUT, "finalLogitSoftcapping", "caps logits; an embedding has none", NOT_HERE, used(), used()),
    *rows(
        _OUT,
        "tieWordEmbeddings",
        "where the head's weights are; an embedding has no head",
        NOT_HERE,
        used(),
        used(),
    ),
    *rows(_OUT, "logitInputScale", "logits are not scaled before the head", NOT_HERE, off(1), off(1)),
    *rows(_OUT, "scaleEmbeddings embeddingScale", "scales the rows of the token table", used()),
    *rows(_OUT, "embeddingTranspose", "the kernels read the table by rows", off(False)),
    *rows(_OUT, "embeddingVocabSize", "a padded token table is not built", off()),
    *rows(_POST, "poolingMode", "how the tokens become one vector", used("mean"), off(), off()),
    *rows(_POST, "includePrompt", "the prompt's tokens are pooled too", used(True), off(), off()),
    *rows(_POST, "normalize", "the vector gets unit length", used("l2"), off(), off()),
    *rows(
        _POST,
        "projections[].weightTensor projections[].inputSize projections[].outputSize projections[].activation",
        "the dense layers after pooling",
        used(),
        off(),
        off(),
    ),
    *rows(_POST, "projections[].biasTensor", "no kernel here adds a bias", off()),
    *rows(_PATTERN, "type globalPattern period offset layerTypes", "which layers attend fully", used()),
    *rows(_PATTERN, "residualBranchScale", "blocks with norms on both sides add branches unscaled", off(1)),
    *rows(
        "inference.chatTemplate",
        "type",
        "the form of a conversation; an embedding holds none",
        NOT_HERE,
        used(),
        used(),
    ),
    *rows(
        "inference.chatTemplate",
        "enabled",
        "the form of a conversation; an embedding holds none",
        off(False),
        used(),
        used(),
    ),
    *rows(
        "inference",
        "supportsEmbedding",
        "the model type says what a model can do",
        used(True),
        off(False),
        off(False),
    ),
    *rows(
        "inference",
        "supportsTranscription supportsVision",
        "the model type says what a model can do",
        off(False),
        LABEL,
        off(False),
    ),
    *rows(
        "inference.diffusionGemma",
        "canvasLength maxDenoisingSteps maxNewTokens tMin tMax entropyBound confidenceThreshold stabilityThreshold "
        "padTokenId eosTokenIds decoderCacheMode",
        "only block diffusion denoises a canvas",
        NOT_HERE,
        NOT_HERE,
        used(),
    ),
    *rows(
        "inference.diffusionGemma",
        "boiTokenId eoiTokenId imageTokenId",
        "the ids around an image; no text needs them",
        NOT_HERE,
        NOT_HERE,
        LABEL,
    ),
    *rows(
        "inference.diffusionGemma",
        "selfConditioning router.scaleHiddenStates router.normalizeTopK router.perExpertScale",
        "a part of the architecture, left out where it is false",
        NOT_HERE,
        NOT_HERE,
        used(),
    ),
    *rows(
        "architecture",
        "numLayers hiddenSize intermediateSize numAttentionHeads numKeyValueHeads headDim vocabSize maxSeqLen",
        "the sizes every tensor is checked against",
        used(),
    ),
    *rows(
        "architecture",
        "globalHeadDim numGlobalKeyValueHeads",
        "sizes that only some layers of Gemma 4 have",
        off(),
        used(),
        used(),
    ),
    *rows("architecture", "attentionKEqV", "whether values are keys", off(), used(), used(True)),
    *rows(
        "architecture",
        "numKvSharedLayers hiddenSizePerLayerInput vocabSizePerLayerInput",
        "sizes that Gemma 4 E2B has",
        off(),
        used(),
        off(0),
    ),
    *rows("text", "maxTokens", "how long a text may be", used()),
    *rows(
        "text",
        "addBos addEos",
        "the tokens around a text; a prompt always gets the model's begin token and no end token",
        used(),
        LABEL,
        LABEL,
    ),
    *rows(
        "text", "prompts defaultPromptName", "the prompts an embedding request names", used(), LABEL, LABEL
    ),
    *rows("text", "dimensions", "the lengths a vector may be cut to", used(), NOT_HERE, NOT_HERE),
    *rows("text", "similarity", "how the publisher compares vectors", LABEL, NOT_HERE, NOT_HERE),
)
