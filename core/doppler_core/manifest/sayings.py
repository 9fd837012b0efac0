"""What a checkpoint says about manifest fields: reads config.json and the sentence modules, changes nothing.

The names are those of the publishers' files. A key that is absent says nothing; a null key says "off".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.manifest.layer_pattern import FULL, SLIDING
from doppler_core.manifest.problems import found

Config = Mapping[str, Any]

CONFIG = "config.json"
MODULES = "modules.json"
PROMPTS = "config_sentence_transformers.json"


@dataclass(frozen=True)
class Saying:
    """`value` for the manifest field at `path`; `source` is the file and key, `original` what stands there."""

    path: str
    value: Any
    source: str
    original: Any


_SIZES = {
    "num_hidden_layers": "numLayers",
    "hidden_size": "hiddenSize",
    "intermediate_size": "intermediateSize",
    "num_attention_heads": "numAttentionHeads",
    "num_key_value_heads": "numKeyValueHeads",
    "head_dim": "headDim",
    "vocab_size": "vocabSize",
    "max_position_embeddings": "maxSeqLen",
    "global_head_dim": "globalHeadDim",
    "num_global_key_value_heads": "numGlobalKeyValueHeads",
    "attention_k_eq_v": "attentionKEqV",
    "num_kv_shared_layers": "numKvSharedLayers",
    "hidden_size_per_layer_input": "hiddenSizePerLayerInput",
    "vocab_size_per_layer_input": "vocabSizePerLayerInput",
}
_PLAIN = {
    "query_pre_attn_scalar": "inference.attention.queryPreAttnScalar",
    "attn_logit_softcapping": "inference.attention.attnLogitSoftcapping",
    "sliding_window": "inference.attention.slidingWindow",
    "attention_bias": "inference.attention.attentionBias",
    "rms_norm_eps": "inference.normalization.rmsNormEps",
    # No publisher writes this key: it is how a GGUF file's config says that its norms have their 1 already.
    "rms_norm_weight_offset": "inference.normalization.rmsNormWeightOffset",
    "use_double_wide_mlp": "inference.ffn.useDoubleWideMlp",
    "final_logit_softcapping": "inference.output.finalLogitSoftcapping",
    "tie_word_embeddings": "inference.output.tieWordEmbeddings",
    "matryoshka_dimensions": "text.dimensions",
} | {key: f"architecture.{name}" for key, name in _SIZES.items()}
_EXPERTS = {
    "num_experts": "numExperts",
    "top_k_experts": "numExpertsPerToken",
    "moe_intermediate_size": "expertIntermediateSize",
}
_ROPE_KINDS = (
    (FULL, "rope", "partialRotaryFactor"),
    (SLIDING, "ropeLocal", "ropeLocalPartialRotaryFactor"),
)
# transformers' "gelu" is the exact form, which no manifest can ask for.
_ACTIVATIONS = {
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu_erf",
}

# What transformers' Gemma3TextConfig takes where a config.json is silent.
_GEMMA3: Mapping[str, Any] = {
    "architecture.numAttentionHeads": 8,
    "architecture.numKeyValueHeads": 4,
    "architecture.headDim": 256,
    "architecture.vocabSize": 262208,
    "architecture.maxSeqLen": 131072,
    "inference.attention.queryPreAttnScalar": 256,
    "inference.attention.slidingWindow": 4096,
    "inference.attention.attentionBias": False,
    "inference.attention.causal": True,
    "inference.normalization.rmsNormEps": 1e-6,
    "inference.normalization.rmsNormWeightOffset": True,
    "inference.ffn.activation": "gelu",
    "inference.rope.ropeTheta": 1000000,
    "inference.rope.ropeLocalTheta": 10000,
    "inference.output.tieWordEmbeddings": True,
}
# What every Gemma 4 has, whether its config.json says it or not; the scale of the scores no config.json says.
_GEMMA4: Mapping[str, Any] = {
    "inference.attention.queryPreAttnScalar": 1,
    "inference.attention.attentionBias": False,
    "inference.attention.causal": True,
    "inference.normalization.rmsNormEps": 1e-6,
    "inference.normalization.rmsNormWeightOffset": False,
    "inference.ffn.activation": "gelu",
    "inference.ffn.useDoubleWideMlp": False,
    "inference.rope.ropeTheta": 1000000,
    "inference.rope.ropeLocalTheta": 10000,
    "inference.output.tieWordEmbeddings": True,
}
# The same stack with experts in every layer and without keys of its own for what they are.
_DIFFUSION_GEMMA: Mapping[str, Any] = {
    **_GEMMA4,
    "architecture.globalHeadDim": 512,
    "architecture.attentionKEqV": True,
    "inference.attention.slidingWindow": 512,
    "inference.output.finalLogitSoftcapping": 30,
}
CLASS_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": _GEMMA3,
    "gemma4_text": _GEMMA4,
    "diffusion_gemma_text": _DIFFUSION_GEMMA,
}


def text_config(config: Config) -> tuple[Config, str]:
    """The part of config.json that describes the text stack, and how sources name it."""
    inner = nested(config, "text_config", f"{CONFIG}: ")
    return (config, f"{CONFIG}: ") if inner is None else (inner, f"{CONFIG}: text_config.")


def nested(config: Config, key: str, where: str) -> Config | None:
    """The object under a key, None where it is absent or null. ManifestError: another kind of value, which a reader
    who looks into it would take for absent."""
    value = config.get(key)
    if value is None or isinstance(value, Mapping):
        return value
    raise ManifestError(f"{where}{key}: expected an object, found {found(value)}")


def config_says(config: Config) -> Iterator[Saying]:
    """What config.json says, but for the layer pattern."""
    text, where = text_config(config)
    for key, path in _PLAIN.items():
        if key in text:
            yield Saying(path, text[key], where + key, text[key])
    for key in ("hidden_activation", "hidden_act"):
        if (value := text.get(key)) is not None:
            known = _ACTIVATIONS.get(value, value) if isinstance(value, str) else value
            yield Saying("inference.ffn.activation", known, where + key, value)
            break
    if "use_bidirectional_attention" in text:
        value = text["use_bidirectional_attention"]
        # Gemma 4 writes "vision" for a text stack that is causal outside images, "all" for an encoder.
        yield Saying(
            "inference.attention.causal",
            value not in (True, "all"),
            where + "use_bidirectional_attention",
            value,
        )
    yield from _experts_say(text, where)
    yield from _rope_says(text, where)


def _experts_say(text: Config, where: str) -> Iterator[Saying]:
    """The sizes of the experts, where the layers have some; their tensors are Gemma's, those of a layer in one."""
    kind = text.get("model_type")
    if text.get("enable_moe_block") is not True and kind != "diffusion_gemma_text":
        return
    yield Saying("moeConfig.expertFormat", "gemma4", where + "model_type", kind)
    for key, name in _EXPERTS.items():
        if key in text:
            yield Saying(f"moeConfig.{name}", text[key], where + key, text[key])


def _rope_says(text: Config, where: str) -> Iterator[Saying]:
    """The bases and scalings: in one object per layer type, in one for all, or in keys of their own."""
    parameters = nested(text, "rope_parameters", where)
    if parameters is not None:
        for kind, prefix, part in _ROPE_KINDS:
            own = nested(parameters, kind, f"{where}rope_parameters.")
            if own is not None:
                yield from _rope_object(own, prefix, f"{where}rope_parameters.{kind}")
                yield from _rope_part(own, part, f"{where}rope_parameters.{kind}")
        if nested(parameters, FULL, where) and parameters[FULL].get("rope_type") == "proportional":
            width = text.get("global_head_dim") or text.get("head_dim")
            yield Saying("inference.rope.ropeFrequencyBaseDim", width, f"{where}global_head_dim", width)
        if "rope_theta" in parameters:
            yield from _rope_object(parameters, "rope", f"{where}rope_parameters")
    if "rope_theta" in text:
        value = text["rope_theta"]
        yield Saying("inference.rope.ropeTheta", value, where + "rope_theta", value)
    if "rope_local_base_freq" in text:
        value = text["rope_local_base_freq"]
        yield Saying("inference.rope.ropeLocalTheta", value, where + "rope_local_base_freq", value)
    if "rope_scaling" in text:
        scaling = text["rope_scaling"]
        if isinstance(scaling, Mapping):
            yield from _rope_object(scaling, "rope", f"{where}rope_scaling")
        else:
            yield Saying("inference.rope.ropeScalingType", scaling, where + "rope_scaling", scaling)


def _rope_part(own: Config, field: str, where: str) -> Iterator[Saying]:
    """The part of a head that rotates; all of it is what null says."""
    value = own.get("partial_rotary_factor")
    if value is not None:
        yield Saying(
            f"inference.rope.{field}", None if value == 1 else value, f"{where}.partial_rotary_factor", value
        )


def _rope_object(own: Config, prefix: str, where: str) -> Iterator[Saying]:
    if own.get("rope_theta") is not None:
        yield Saying(
            f"inference.rope.{prefix}Theta", own["rope_theta"], f"{where}.rope_theta", own["rope_theta"]
        )
    kind = own.get("rope_type", own.get("type"))
    if kind is not None:
        # "proportional" is no scaling: it is what partialRotaryFactor and ropeFrequencyBaseDim say.
        scaled = kind not in ("default", "proportional")
        yield Saying(
            f"inference.rope.{prefix}ScalingType", kind if scaled else None, f"{where}.rope_type", kind
        )
        if scaled and "factor" in own:
            yield Saying(
                f"inference.rope.{prefix}ScalingFactor", own["factor"], f"{where}.factor", own["factor"]
            )


def modules_say(sentence: Mapping[str, Any], config: Config) -> Iterator[Saying]:
    """What the sentence-transformers files say: pooling, dense layers, normalisation, prompts, length.

    `sentence` has the keys pooling, include_prompt, dense (weight, bias, in_features, out_features, activation),
    normalize, prompts, default_prompt_name, max_seq_length, similarity.
    """
    dense = [
        {
            "weightTensor": layer["weight"],
            "biasTensor": layer["bias"],
            "inputSize": layer["in_features"],
            "outputSize": layer["out_features"],
            "activation": layer["activation"],
        }
        for layer in sentence["dense"]
    ]
    head = {
        "poolingMode": sentence["pooling"],
        "includePrompt": sentence["include_prompt"],
        "projections": dense,
        "normalize": "l2" if sentence["normalize"] else None,
    }
    yield Saying("inference.output.embeddingPostprocessor", head, MODULES, head)
    for key, path in (("prompts", "prompts"), ("default_prompt_name", "defaultPromptName")):
        yield Saying(f"text.{path}", sentence[key], f"{PROMPTS}: {key}", sentence[key])
    if sentence["similarity"] is not None:
        yield Saying(
            "text.similarity",
            sentence["similarity"],
            f"{PROMPTS}: similarity_fn_name",
            sentence["similarity"],
        )
    length = sentence["max_seq_length"]
    if length is not None:
        text, _ = text_config(config)
        longest = text.get("max_position_embeddings", length)
        value = min(length, longest) if isinstance(longest, int) else length
        yield Saying("text.maxTokens", value, "sentence_bert_config.json: max_seq_length", length)


def tokenizer_says(tokenizer: Mapping[str, Any]) -> Iterator[Saying]:
    """What tokenizer_config.json says of the tokens around a text."""
    for key, path in (("add_bos_token", "text.addBos"), ("add_eos_token", "text.addEos")):
        if isinstance(tokenizer.get(key), bool):
            yield Saying(path, tokenizer[key], f"tokenizer_config.json: {key}", tokenizer[key])
