"""EmbeddingGemma's published folder written as a GGUF file, since llama.cpp reads no other.

    python benchmarks/embedding_gguf.py FOLDER OUT.gguf [--type q8_0]

The folder is read with this project's readers, the file is written with the `gguf` package. What the file does not
hold, whoever embeds with it has to do: put the prompt before the text, scale the vectors to length one.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf import (
    MODEL_ARCH,
    MODEL_ARCH_NAMES,
    GGMLQuantizationType,
    GGUFWriter,
    LlamaFileType,
    PoolingType,
    TokenType,
    get_tensor_name_map,
    quants,
)

from doppler_core.weights.checkpoint import Checkpoint, read_checkpoint
from doppler_core.weights.sentence_modules import PROJECTIONS
from doppler_core.weights.storage import to_f32

ARCHITECTURE = MODEL_ARCH.GEMMA_EMBEDDING
FILE_TYPES: Mapping[str, LlamaFileType] = {
    "f16": LlamaFileType.MOSTLY_F16,
    "q8_0": LlamaFileType.MOSTLY_Q8_0,
}
POOLING: Mapping[str, PoolingType] = {"mean": PoolingType.MEAN, "last": PoolingType.LAST}
# The format names the dense layers after their folders, 2_Dense and 3_Dense.
DENSE = ("dense_2", "dense_3")


def write_gguf(folder: Path, out: Path, dtype: str) -> None:
    """Write `folder` to `out`: matrices as `dtype`, a key of FILE_TYPES; norms as f32."""
    checkpoint = read_checkpoint(folder)
    writer = GGUFWriter(out, MODEL_ARCH_NAMES[ARCHITECTURE])
    writer.add_file_type(FILE_TYPES[dtype])
    add_hyperparameters(writer, checkpoint)
    add_tokenizer(writer, checkpoint)
    add_tensors(writer, checkpoint, GGMLQuantizationType[dtype.upper()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_hyperparameters(writer: GGUFWriter, checkpoint: Checkpoint) -> None:
    """What config.json and the sentence modules say. The window is the published one: each side sees half of it."""
    config, sentence = checkpoint.config, checkpoint.sentence
    if sentence is None:
        raise SystemExit(f"{checkpoint.path}: expected an embedding model with modules.json")
    writer.add_name(checkpoint.source_id or checkpoint.path.name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_freq_base_swa(config["rope_local_base_freq"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_causal_attention(False)
    writer.add_pooling_type(POOLING[sentence.pooling])
    for name, layer in zip(DENSE, sentence.dense, strict=True):
        writer.add_dense_features_dims(name, layer.in_features, layer.out_features)


def add_tokenizer(writer: GGUFWriter, checkpoint: Checkpoint) -> None:
    """The pieces that have an embedding, as a SentencePiece vocabulary.

    tokenizer.json has no scores; pieces are numbered in the order of their merges, so minus the number ranks the same.
    """
    tokenizer = json.loads(checkpoint.tokenizer_files["tokenizer.json"].read_text("utf-8"))
    config = checkpoint.config
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)[: config["vocab_size"]]
    added = {token["content"]: token for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(number) for number in range(len(pieces))])
    writer.add_token_types([token_type(piece, added.get(piece)) for piece in pieces])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_unk_token_id(vocabulary[tokenizer["model"]["unk_token"]])
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def token_type(piece: str, added: Mapping[str, Any] | None) -> TokenType:
    """How SentencePiece would class a piece; `added`: its record among the added tokens, if it has one."""
    if piece == "<unk>":
        return TokenType.UNKNOWN
    if added is not None:
        return TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    if len(piece) == 6 and piece.startswith("<0x"):
        return TokenType.BYTE
    return TokenType.NORMAL


def add_tensors(writer: GGUFWriter, checkpoint: Checkpoint, dtype: GGMLQuantizationType) -> None:
    """All weights, under the format's names. Its norms multiply by the weight alone, Gemma's by 1 + weight."""
    names = get_tensor_name_map(ARCHITECTURE, checkpoint.config["num_hidden_layers"])
    dense = {f"{PROJECTIONS}.{number}.weight": f"{name}.weight" for number, name in enumerate(DENSE)}
    for name, tensor in checkpoint.tensors.items():
        target = dense.get(name) or names.get_name(f"model.{name}", try_suffixes=(".weight",))
        if target is None:
            raise SystemExit(f"{checkpoint.path}: the format has no name for tensor {name!r}")
        values = to_f32(tensor).reshape(tensor.shape)
        if values.ndim == 1:
            writer.add_tensor(target, values + 1)
        else:
            writer.add_tensor(target, quants.quantize(values, dtype), raw_dtype=dtype)


def main() -> None:
    """Read the command line, write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of EmbeddingGemma-300M as published")
    parser.add_argument("out", type=Path, help="the GGUF file to write")
    parser.add_argument("--type", choices=FILE_TYPES, default="f16", help="of the matrices")
    options = parser.parse_args()
    write_gguf(options.folder, options.out, options.type)


if __name__ == "__main__":
    main()
