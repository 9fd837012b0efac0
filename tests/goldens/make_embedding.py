"""Make a tiny random EmbeddingGemma and the values transformers computes for it, as the tests' independent oracle.

    python tests/goldens/make_embedding.py        (needs torch, transformers, tokenizers and safetensors; a minute)

Writes tests/goldens/embedding/: the checkpoint as a publisher would ship it, and golden.npz with, per text, the ids,
the hidden state after the embedding and after every layer, and the embedding. All in f32, from weights rounded to
bf16 as the file has them. Transformers initialises every norm to a constant; here all weights are random, so that
none can be left out unnoticed.
"""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors, trainers
from transformers import Gemma3TextConfig, Gemma3TextModel, PreTrainedTokenizerFast

FOLDER = Path(__file__).parent / "embedding"
VOCABULARY, FIRST_BYTE, FIRST_TEXT = 512, 4, 260
SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
SAMPLE = (
    "A kettle sings before the water boils. Rivers carry silt to the sea, and the sea gives it back as sand. "
    "What time does the last train leave? Bring 12 eggs, 300 g of flour and a pinch of salt. title: none | text: "
    "task: search result | query: The orchard keeps its oldest trees by the wall, where frost comes late."
)
PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: "}
TEXTS = (
    (PROMPTS["query"], "What time does the last train leave?"),
    (PROMPTS["document"], SAMPLE),
    (PROMPTS["document"], ""),
)


def make_tokenizer(around: str = "<bos> $A <eos>", extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A byte-fallback BPE in the manner of Gemma's: what it puts around every text, and special tokens beside SPECIAL."""
    trained = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - FIRST_TEXT - 40,
        initial_alphabet=[chr(code) for code in range(33, 127)] + ["\u2581"],
        show_progress=False,
    )
    # Word by word: over whole sentences, merges would learn the sample by heart.
    trained.train_from_iterator([f"\u2581{word}" for word in SAMPLE.split()], trainer)
    learned = json.loads(trained.to_str())["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    vocabulary = {token: index for index, token in enumerate(SPECIAL)}
    vocabulary |= {f"<0x{byte:02X}>": FIRST_BYTE + byte for byte in range(256)}
    vocabulary |= {piece: FIRST_TEXT + index for index, piece in enumerate(pieces)}
    vocabulary |= {token: len(vocabulary) + index for index, token in enumerate(extra)}
    vocabulary |= {f"<unused{index}>": index for index in range(len(vocabulary), VOCABULARY)}
    merges = [tuple(merge) for merge in learned["merges"]]
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    backend.normalizer = normalizers.Replace(" ", "\u2581")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special = [AddedToken(token, special=True, normalized=False) for token in (*SPECIAL, *extra)]
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"
    )


def randomise(model: torch.nn.Module) -> None:
    """Give every weight a random value of sensible size, rounded to bf16."""
    draw = torch.Generator().manual_seed(7)
    for name, weight in sorted(model.named_parameters()):
        spread = {1: 0.15, 2: 1.5 / weight.shape[-1] ** 0.5}[weight.ndim]
        values = torch.randn(weight.shape, generator=draw) * spread
        if "q_norm" in name or "k_norm" in name:
            values -= 0.4
        weight.data.copy_(values.bfloat16().float())


def dense_layers(hidden: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The two projections behind the pooling, bf16."""
    draw = torch.Generator().manual_seed(11)
    first = torch.randn((4 * hidden, hidden), generator=draw) / hidden**0.5
    second = torch.randn((hidden, 4 * hidden), generator=draw) / (4 * hidden) ** 0.5
    return first.bfloat16(), second.bfloat16()


def write_modules(first: torch.Tensor, second: torch.Tensor, hidden: int) -> None:
    """The sentence-transformers part of the checkpoint."""
    kinds = (
        ("", "Transformer"),
        ("1_Pooling", "Pooling"),
        ("2_Dense", "Dense"),
        ("3_Dense", "Dense"),
        ("4_Normalize", "Normalize"),
    )
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds)
    ]
    write_json("modules.json", modules)
    write_json(
        "1_Pooling/config.json",
        {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True, "include_prompt": True},
    )
    for folder, weight in (("2_Dense", first), ("3_Dense", second)):
        (FOLDER / folder).mkdir(exist_ok=True)
        save_file({"linear.weight": weight.contiguous()}, FOLDER / folder / "model.safetensors")
        sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0]}
        identity = "torch.nn.modules.linear.Identity"
        write_json(f"{folder}/config.json", {**sizes, "bias": False, "activation_function": identity})
    write_json(
        "config_sentence_transformers.json",
        {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    write_json("sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False})


def write_json(name: str, data: object) -> None:
    path = FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", "utf-8")


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(FOLDER)
    config = Gemma3TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        query_pre_attn_scalar=24,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        use_bidirectional_attention=True,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=1,
    )
    model = Gemma3TextModel(config).eval()
    randomise(model)
    model.to(torch.bfloat16).save_pretrained(FOLDER)
    first, second = dense_layers(config.hidden_size)
    write_modules(first, second, config.hidden_size)
    model = Gemma3TextModel.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
    golden: dict[str, np.ndarray] = {}
    for index, (prompt, text) in enumerate(TEXTS):
        ids = torch.tensor([tokenizer((prompt + text).strip()).input_ids])
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
        vector = second.float() @ (first.float() @ out.last_hidden_state[0].mean(0))
        golden[f"ids{index}"] = ids[0].numpy()
        golden[f"hidden{index}"] = torch.stack([state[0] for state in out.hidden_states]).numpy()
        golden[f"embedding{index}"] = (vector / vector.norm()).numpy()
    np.savez_compressed(FOLDER / "golden.npz", **golden)
    print({name: value.shape for name, value in golden.items()})


if __name__ == "__main__":
    main()
