"""Make tiny random Gemma models that generate, and the values transformers computes for them, as an independent oracle.

    python tests/goldens/make_causal.py [NAME...]     (needs torch, transformers, tokenizers and safetensors; a minute)

Writes four checkpoints beside this file, as a publisher would ship them:
    gemma3   sliding and full layers
    gemma4   as E2B: per-layer inputs, shared keys and values, a double-wide tail, two head widths, a vision tower
    gemma4_dense   as the larger ones: values that are keys, key heads of their own in full layers; its config.json has
             the sizes of full layers in overrides by layer number, as transformers 5 writes them
    gemma4_moe   with experts beside each feed-forward; its golden.npz has the router's probabilities and the experts'
             sum of layer 0 too
Each has golden.npz: the ids of a prompt longer than the window, the ids greedy decoding makes of it, and for both
together the hidden state after the embedding, after every layer (the last one normed), and the logits. All in f32, from
weights rounded to bf16 as the file has them. Transformers initialises norms and factors to constants; here all are
random, so that none can be left out unnoticed; and so large that some seeds magnify what rounding keys and values to
f16 changes many times over. Those seeds are passed over: what they would tell of an f16 cache is the seed's.
"""

import json
import shutil
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from make_embedding import SAMPLE, VOCABULARY, make_tokenizer
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4Config,
    Gemma4ForCausalLM,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    GenerationConfig,
    PreTrainedModel,
)

HERE = Path(__file__).parent
MADE = 16  # tokens that greedy decoding makes
CLEAR = 0.1  # margin of the likeliest token at each of them: no way of rounding comes near it
STEADY = 1.2e-3  # how far keys and values in f16 may move a layer, relative to its largest value
TURNS = {"gemma3": ("<start_of_turn>", "<end_of_turn>"), "gemma4": ("<|turn>", "<turn|>")}
CHANNELS = ("<|channel>", "<channel|>", "<|think|>", "<|image|>", "<|image>", "<image|>", "<|audio|>")
PROMPT = "{0}user\n" + SAMPLE[:96] + "{1}\n{0}model\n"

TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
SLIDING, FULL = "sliding_attention", "full_attention"


def gemma3() -> PreTrainedModel:
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            **TEXT,
            intermediate_size=96,
            num_hidden_layers=4,
            num_key_value_heads=2,
            head_dim=32,
            query_pre_attn_scalar=24,
            sliding_window=8,
            layer_types=[SLIDING, FULL, SLIDING, SLIDING],
        )
    )


def gemma4() -> PreTrainedModel:
    text = {
        **TEXT,
        "intermediate_size": 64,
        "num_hidden_layers": 7,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "global_head_dim": 32,
        "sliding_window": 8,
        "layer_types": [SLIDING, FULL, SLIDING, FULL, SLIDING, SLIDING, FULL],
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": VOCABULARY,
        "final_logit_softcapping": 20.0,
    }
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "patch_size": 4,
        "pooling_kernel_size": 3,
        "position_embedding_size": 16,
        "use_clipped_linears": True,
    }
    return Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=vision))


def gemma4_dense() -> PreTrainedModel:
    return Gemma4ForCausalLM(
        Gemma4TextConfig(
            **TEXT,
            intermediate_size=96,
            num_hidden_layers=4,
            num_key_value_heads=2,
            num_global_key_value_heads=1,
            head_dim=16,
            global_head_dim=32,
            attention_k_eq_v=True,
            sliding_window=8,
            layer_types=[SLIDING, FULL, SLIDING, FULL],
            hidden_size_per_layer_input=0,
            final_logit_softcapping=20.0,
        )
    )


def gemma4_moe() -> PreTrainedModel:
    return Gemma4ForCausalLM(
        Gemma4TextConfig(
            **TEXT,
            intermediate_size=96,
            num_hidden_layers=2,
            num_key_value_heads=2,
            num_global_key_value_heads=1,
            head_dim=16,
            global_head_dim=32,
            attention_k_eq_v=True,
            sliding_window=8,
            layer_types=[SLIDING, FULL],
            hidden_size_per_layer_input=0,
            enable_moe_block=True,
            num_experts=4,
            top_k_experts=2,
            moe_intermediate_size=32,
        )
    )


def randomise(model: PreTrainedModel, seed: int, plus_one: bool) -> None:
    """Give every weight and factor a random value of sensible size, rounded to bf16.

    Tied random tables would repeat the last token: a small table behind a large final norm does not.
    """
    draw = torch.Generator().manual_seed(seed)
    hidden = model.config.get_text_config().hidden_size
    factors = [(name, value) for name, value in model.named_buffers() if name.endswith("layer_scalar")]
    for name, value in sorted([*model.named_parameters(), *factors]):
        noise, one = torch.randn(value.shape, generator=draw), 0.0 if plus_one else 1.0
        if name.endswith("layer_scalar"):
            made = 0.9 + 0.1 * noise
        elif name.endswith("language_model.norm.weight") or name == "model.norm.weight":
            made = (1 + 0.1 * noise) * 5 * hidden**0.5 - (1 - one)
        elif "embed_tokens_per_layer" in name:
            made = 0.25 * noise
        elif "embed_tokens" in name:
            made = 1.5 / hidden * noise
        elif "q_norm" in name or "k_norm" in name:
            made = 0.1 * noise + one - 0.5
        elif value.ndim == 1:
            made = 0.15 * noise + one
        else:
            made = 1.5 / value.shape[-1] ** 0.5 * noise
        value.data.copy_(made.bfloat16().float())
    for name, value in model.named_buffers():
        if name.endswith(("_min", "_max")):  # of clipped linears: infinite until they are trained
            value.fill_(1.5 if name.endswith("_max") else -1.5)
    model.tie_weights()


def greedy(model: PreTrainedModel, ids: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The ids with MADE more, without a cache; whether each was clearly the likeliest, and they are varied."""
    start, clear = ids.shape[1], True
    for _ in range(MADE):
        best = model(input_ids=ids).logits[0, -1].topk(2)
        clear &= float(best.values[0] - best.values[1]) > CLEAR
        ids = torch.cat([ids, best.indices[:1][None]], 1)
    made = ids[0, start:].tolist()
    return ids, clear and len(set(made)) > MADE // 2 and 1 not in made


def steady(model: PreTrainedModel, ids: torch.Tensor) -> bool:
    """Whether keys and values rounded to f16 give nearly the same hidden states."""
    module = sys.modules[type(model).__module__]
    exact = module.eager_attention_forward

    def rounded(layer, query, key, value, *more, **options):  # type: ignore[no-untyped-def]
        return exact(layer, query, key.half().float(), value.half().float(), *more, **options)

    model.set_attn_implementation("eager")
    *expected, _ = values(model, ids)
    with mock.patch.object(module, "eager_attention_forward", rounded):
        *found, _ = values(model, ids)
    moved = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True)]
    return 0 < max(moved) < STEADY


def values(model: PreTrainedModel, ids: torch.Tensor) -> list[torch.Tensor]:
    """The hidden states, [tokens, hidden] each, and the logits."""
    out = model(input_ids=ids, output_hidden_states=True)
    return [*(state[0] for state in out.hidden_states), out.logits[0]]


def mixture(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """What layer 0's router and experts give in the model's next run, if it has them; empty until then."""
    found: dict[str, np.ndarray] = {}
    layer = model.get_decoder().layers[0]
    if hasattr(layer, "router"):
        layer.router.register_forward_hook(lambda _, __, out: found.update(router=out[0].numpy()))
        layer.experts.register_forward_hook(lambda _, __, out: found.update(experts=out.numpy()))
    return found


def publishers_config(folder: Path, extra: dict[str, object]) -> None:
    """Put sizes of full layers in keys of their own, as publishers do, in place of overrides by layer number."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    text = config["text_config"]
    del text["per_layer_config"]
    path.write_text(json.dumps({**config, "text_config": {**text, **extra}}, indent=1) + "\n")


@torch.no_grad()
def make(name: str, build: type, family: str) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    turns = TURNS[family]
    tokenizer = make_tokenizer("<bos> $A", (*turns, *(CHANNELS if family == "gemma4" else ())))
    ids = torch.tensor([tokenizer(PROMPT.format(*turns)).input_ids])
    model = build().eval()
    for seed in range(1, 400):
        randomise(model, seed, plus_one=family == "gemma3")
        everything, good = greedy(model, ids)
        if good and steady(model, everything):
            break
    else:
        raise SystemExit(f"{name}: no seed gives clear greedy tokens and steady values")
    model.generation_config = GenerationConfig(
        eos_token_id=[1, tokenizer.convert_tokens_to_ids(turns[1])],
        bos_token_id=2,
        pad_token_id=0,
        do_sample=True,
        temperature=1.0,
        top_k=64,
        top_p=0.95,
    )
    kind = type(model)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if name == "gemma4":
        publishers_config(folder, {"global_head_dim": 32, "num_global_key_value_heads": None})
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    everything, good = greedy(model, ids)
    assert good
    mixed = mixture(model)
    *hidden, logits = values(model, everything)
    golden = {
        "ids": ids[0].numpy(),
        "made": everything[0, ids.shape[1] :].numpy(),
        "hidden": torch.stack(hidden).numpy(),
        "logits": logits.numpy(),
    }
    golden |= mixed
    np.savez_compressed(folder / "golden.npz", **golden)
    print(name, "seed", seed, {key: value.shape for key, value in golden.items()}, golden["made"].tolist())


BUILDS = {"gemma3": gemma3, "gemma4": gemma4, "gemma4_dense": gemma4_dense, "gemma4_moe": gemma4_moe}


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or BUILDS:
        make(name, BUILDS[name], name.split("_")[0])


if __name__ == "__main__":
    main()
