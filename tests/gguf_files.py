"""GGUF files for tests: a Hugging Face folder written as llama.cpp's converter would, by the `gguf` package's own writer."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from doppler_core.text.gguf_vocabulary import Type as TokenType
from doppler_core.weights.checkpoint import Checkpoint, read_checkpoint
from doppler_core.weights.files import read_json_object
from doppler_core.weights.storage import store, to_f32

ARCHITECTURES = {
    "Gemma3ForCausalLM": gguf.MODEL_ARCH.GEMMA3,
    "Gemma3TextModel": gguf.MODEL_ARCH.GEMMA_EMBEDDING,
    "Gemma4ForConditionalGeneration": gguf.MODEL_ARCH.GEMMA4,
}
# Names that the package's table does not hold, as the converter writes them.
OWN_NAMES = {
    "embedding_postprocessor.projections.0.weight": "dense_2.weight",
    "embedding_postprocessor.projections.1.weight": "dense_3.weight",
}

TypeOf = Callable[[str, tuple[int, ...]], Type]


def all_f32(name: str, shape: tuple[int, ...]) -> Type:
    """Every tensor as f32."""
    return Type.F32


def write_gguf(folder: Path, path: Path, type_of: TypeOf = all_f32, *, without: tuple[str, ...] = ()) -> Path:
    """The checkpoint in a folder as a GGUF file, its chat template too; without: tensors (as written) to leave out."""
    checkpoint = read_checkpoint(folder)
    architecture = ARCHITECTURES[checkpoint.config["architectures"][0]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    text = checkpoint.config.get("text_config", checkpoint.config)
    write_settings(writer, text)
    if (tokenizer := checkpoint.tokenizer_files.get("tokenizer.json")) is not None:
        write_tokenizer(writer, read_json_object(tokenizer))
    if (template := checkpoint.tokenizer_files.get("chat_template.jinja")) is not None:
        writer.add_chat_template(template.read_text())
    for name, values in named_tensors(checkpoint, architecture, text).items():
        if name not in without:
            write_tensor(writer, name, values, type_of(name, values.shape))
    finish(writer)
    return path


def finish(writer: gguf.GGUFWriter) -> None:
    """Write everything and close."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_settings(writer: gguf.GGUFWriter, text: Mapping[str, Any]) -> None:
    """What the converter takes from the config of a text stack."""
    layers = text["num_hidden_layers"]
    writer.add_block_count(layers)
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_head_count(text["num_attention_heads"])
    pairs = text["num_key_value_heads"]
    full = text.get("num_global_key_value_heads") or pairs
    kinds = text["layer_types"]
    writer.add_head_count_kv(
        pairs if full == pairs else [full if kind == "full_attention" else pairs for kind in kinds]
    )
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_sliding_window(text["sliding_window"])
    rope = text.get("rope_parameters", {})
    writer.add_rope_freq_base(rope.get("full_attention", {}).get("rope_theta", 1e6))
    if text["model_type"] == "gemma3_text":
        writer.add_feed_forward_length(text["intermediate_size"])
        writer.add_key_length(text["head_dim"])
        # The tiny checkpoints have patterns and scales of their own, which no real Gemma 3 has.
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in text["layer_types"]])
        writer.add_attention_scale(text["query_pre_attn_scalar"] ** -0.5)
        return
    shared = text["num_kv_shared_layers"]
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in text["layer_types"]])
    writer.add_final_logit_softcapping(text["final_logit_softcapping"])
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(text["hidden_size_per_layer_input"])
    writer.add_key_length(text["global_head_dim"])
    writer.add_key_length_swa(text["head_dim"])
    width = text["intermediate_size"]
    double = text["use_double_wide_mlp"]
    if text["enable_moe_block"]:
        writer.add_expert_count(text["num_experts"])
        writer.add_expert_used_count(text["top_k_experts"])
        writer.add_expert_feed_forward_length(text["moe_intermediate_size"])
    writer.add_feed_forward_length(
        [width * 2 if double and layer >= layers - shared else width for layer in range(layers)]
    )


def write_tokenizer(writer: gguf.GGUFWriter, tokenizer: Mapping[str, Any]) -> None:
    """A tokenizer.json's tokens and types, and its merges."""
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    types = dict.fromkeys(tokens, TokenType.NORMAL)
    types |= {f"<0x{byte:02X}>": TokenType.BYTE for byte in range(256)}
    for token in tokenizer["added_tokens"]:
        types[token["content"]] = TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list(tokens)
    writer.add_token_types([types[token] for token in tokens])
    writer.add_token_scores([-1000.0] * len(tokens))
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(vocabulary["<bos>"])
    writer.add_eos_token_id(vocabulary["<eos>"])
    writer.add_pad_token_id(vocabulary["<pad>"])
    around = [part for part in tokenizer["post_processor"]["single"] if "SpecialToken" in part]
    marks = [part["SpecialToken"]["id"] for part in around]
    writer.add_add_bos_token("<bos>" in marks)
    writer.add_add_eos_token("<eos>" in marks)


def named_tensors(
    checkpoint: Checkpoint, architecture: gguf.MODEL_ARCH, text: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The text stack's tensors under llama.cpp's names, changed as its converter changes them."""
    names = gguf.get_tensor_name_map(architecture, text["num_hidden_layers"])
    found: dict[str, np.ndarray] = {}
    for name, tensor in checkpoint.tensors.items():
        if "_tower." in name or name.startswith(("model.embed_vision.", "model.embed_audio.")):
            continue
        values = to_f32(tensor).reshape(tensor.shape)
        found[written_name(name, names, architecture)] = (
            values + 1 if architecture != gguf.MODEL_ARCH.GEMMA4 and name.endswith("norm.weight") else values
        )
    if architecture == gguf.MODEL_ARCH.GEMMA4:
        half = text["global_head_dim"] // 2
        turning = int(half * text["rope_parameters"]["full_attention"]["partial_rotary_factor"])
        found["rope_freqs.weight"] = np.array([1.0] * turning + [1e30] * (half - turning), np.float32)
    return found


def written_name(name: str, names: gguf.TensorNameMap, architecture: gguf.MODEL_ARCH) -> str:
    """llama.cpp's name of a published tensor, from the package's own table."""
    if name in OWN_NAMES:
        return OWN_NAMES[name]
    if architecture == gguf.MODEL_ARCH.GEMMA4:
        name = name.replace("model.language_model.", "model.", 1)
        layer = name.split(".")[2]
        if name.endswith("router.scale"):
            return f"blk.{layer}.ffn_gate_inp.scale"
        if name.endswith("router.per_expert_scale"):
            return f"blk.{layer}.ffn_down_exps.scale"
        name += "" if name.endswith(".weight") else ".weight"
    elif not name.startswith("model."):
        name = f"model.{name}"
    found = names.get_name(name, try_suffixes=(".weight",))
    assert found is not None, name
    return found


def write_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: Type) -> None:
    """A tensor in a type: those that the package can't quantise to are quantised by us."""
    if kind is Type.Q4_K:
        data = store(values.reshape(-1, values.shape[-1]), "q4_k", name)
        shape = values.shape
        data = data.reshape(*shape[:-1], -1)
    else:
        data = gguf.quants.quantize(values, kind)
    writer.add_tensor(name, data, raw_dtype=kind)
