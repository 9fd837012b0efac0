"""Make tiny random DiffusionGemmas, and what transformers computes and generates with them, as an independent oracle.

    python tests/goldens/make_diffusion.py [NAME...]     (needs torch, transformers, tokenizers, safetensors; minutes)

Writes two folders beside this file:
    diffusion   a checkpoint as a publisher would ship it, a vision tower beside the text stack
    diffusion_wide   sizes as the real model's are: widths that fill blocks of 256 and widths that do not, a vocabulary
                that is no multiple of 256. Its weights are not kept: diffusion_weights makes them of tensors.tsv, which
                has their names and shapes, and of the seed in golden.npz
Each has
    golden.npz  ids of a prompt longer than the window and what the encoder makes of them: the hidden state after the
                embedding and after every layer (the last one normed), keys and values of the last layer. Of a canvas:
                the same and the logits, in a first step and in one that is conditioned on the first's logits
    run_*.npz   runs of generate(): settings as a manifest names them, the noise, and of every step what it made of the
                canvas. Their noise is recorded, so that they can be repeated; `u` lies in the middle of what draws the
                same token
All in f32, from weights rounded to bf16. A run is kept where no decision in it is close, and where nudging the weights
changes none: what it would tell otherwise is the rounding's.
"""

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusion_runs import Arrays, Draws, Model, Run, Settings, generated, steady
from diffusion_weights import weight
from make_causal import CHANNELS, FULL, PROMPT, SLIDING, TURNS, publishers_config
from make_embedding import VOCABULARY, make_tokenizer
from transformers import DynamicCache
from transformers.models.diffusion_gemma.configuration_diffusion_gemma import (
    DiffusionGemmaConfig,
    DiffusionGemmaTextConfig,
)
from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
    DiffusionGemmaGenerationConfig,
    EntropyBoundSamplerConfig,
)

HERE = Path(__file__).parent
CANVAS = 16
NUDGE = 1e-6  # relative change of the weights that changes no token


@dataclass(frozen=True)
class Size:
    vocabulary: int
    hidden: int
    width: int  # of a sliding layer's heads; a full one's are twice as wide
    inner: int
    expert: int


SIZES = {"diffusion": Size(VOCABULARY, 64, 16, 96, 32), "diffusion_wide": Size(700, 256, 64, 320, 96)}


RUNS = {
    "diffusion": {
        "whole": Settings(32, 6, 0.4, 0.8, 0.1, 1, 0.005),  # every step of two canvases
        "stops": Settings(32, 16, 0.1, 0.4, 0.5, 1, 0.3),  # stable and confident before the last step
        "stable": Settings(16, 16, 0.1, 0.4, 0.5, 2, 0.4),  # two steps of stability
        "confident": Settings(32, 12, 0.1, 0.4, 0.5, 0, 0.3),  # confidence alone
    },
    "diffusion_wide": {
        "whole": Settings(32, 6, 0.8, 1.2, 0.5, 1, 0.005),
        "confident": Settings(32, 12, 0.4, 0.8, 0.5, 0, 0.5),
    },
}


def build(size: Size, seed: int) -> Model:
    text = DiffusionGemmaTextConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_global_key_value_heads=1,
        head_dim=size.width,
        global_head_dim=2 * size.width,
        sliding_window=16,
        layer_types=[SLIDING, SLIDING, FULL],
        num_experts=8,
        top_k_experts=2,
        moe_intermediate_size=size.expert,
        final_logit_softcapping=30.0,
        use_bidirectional_attention="vision",
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=1,
    )
    vision = {
        "model_type": "gemma4_vision",
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "patch_size": 4,
        "pooling_kernel_size": 3,
        "position_embedding_size": 16,
    }
    model = Model(DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=CANVAS)).eval()
    model.set_attn_implementation("eager")
    model.set_experts_implementation("eager")
    factors = [(name, one) for name, one in model.named_buffers() if name.endswith("layer_scalar")]
    for name, value in [*model.named_parameters(), *factors]:
        value.data.copy_(torch.from_numpy(weight(name, tuple(value.shape), seed)))
    model.tie_weights()
    return model


def find(
    model: Model, other: Model, ids: torch.Tensor, settings: Settings, good: Callable[[Run], bool]
) -> tuple[Run, Draws]:
    for seed in range(1, 1000):
        kept = steady(model, other, ids, settings, seed)
        if kept is not None and good(kept[0]):
            accepted = [int(one.sum()) for one in kept[0].arrays["accepted"]]
            print(f"  seed {seed} of {settings}: {accepted} accepted", flush=True)
            return kept
    raise SystemExit(f"no seed gives a clear run of {settings}")


def ends(run: Run) -> list[int]:
    """Tokens within the second canvas that the first has not: with one of them as an end the same noise gives less."""
    first, second = run.made[:CANVAS].tolist(), run.made[CANVAS : 2 * CANVAS].tolist()
    return [token for token in second[4:-2] if token not in first]


def whole(run: Run) -> bool:
    """Every step of both canvases ran, and the second could end earlier."""
    return not any(run.arrays["finished"]) and bool(ends(run))


def early(run: Run) -> bool:
    """Each canvas stopped before its last step, and steps accepted some of its positions, and others."""
    lefts = run.stacked()["left"][run.stacked()["finished"]]
    shares = {int(one.sum()) for one in run.arrays["accepted"]}
    return len(lefts) == len(run.first) and len(shares) > 2 and lefts.min() > 1


def runs(
    asked: Mapping[str, Settings], model: Model, other: Model, ids: torch.Tensor
) -> Iterator[tuple[str, Run, Draws]]:
    for name, settings in asked.items():
        run, draws = find(model, other, ids, settings, whole if name == "whole" else early)
        yield name, run, draws
        if name == "whole":
            longer = dataclasses.replace(settings, max_tokens=64, ends=(ends(run)[0], 106))
            again = Draws(0, draws)
            yield "ends", generated(model, ids, longer, again), again


def forward(model: Model, ids: torch.Tensor) -> Arrays:
    """The encoder, and two steps of a canvas of tokens."""
    cache = DynamicCache(config=model.config.text_config)
    encoded = model.model.encoder(input_ids=ids, cache=cache, output_hidden_states=True)
    tokens = np.random.RandomState(1).randint(0, model.config.text_config.vocab_size, (1, CANVAS))
    canvas = torch.from_numpy(tokens)
    one = model(decoder_input_ids=canvas, cache=cache, output_hidden_states=True)
    two = model(
        decoder_input_ids=canvas, cache=cache, self_conditioning_logits=one.logits, output_hidden_states=True
    )
    keys, values = (
        side[0].transpose(0, 1).flatten(1).numpy()
        for side in (cache.layers[-1].keys, cache.layers[-1].values)
    )
    found = {"ids": ids[0].numpy(), "tokens": tokens[0], "keys": keys, "values": values}
    for name, out in (("encoded", encoded), ("first", one), ("second", two)):
        found[name] = torch.stack([state[0] for state in out.hidden_states]).numpy()
    return found | {"first_logits": one.logits[0].numpy(), "second_logits": two.logits[0].numpy()}


def nudged(size: Size, seed: int) -> Model:
    """The model with weights a little different."""
    other = build(size, seed)
    random = torch.Generator().manual_seed(1)
    for value in other.parameters():
        value.data.mul_(1 + NUDGE * torch.randn(value.shape, generator=random))
    return other


def save(model: Model, folder: Path, tokenizer: Any, size: Size) -> None:
    """The checkpoint as its publisher would ship it; generation_config.json has ends and numbers of its own."""
    model.generation_config = DiffusionGemmaGenerationConfig(
        eos_token_id=[1, tokenizer.convert_tokens_to_ids(TURNS["gemma4"][1])],
        pad_token_id=0,
        bos_token_id=2,
        max_new_tokens=48,
        max_denoising_steps=12,
        t_min=0.4,
        t_max=0.8,
        stability_threshold=1,
        confidence_threshold=0.005,
        sampler_config=EntropyBoundSamplerConfig(entropy_bound=0.1),
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model.to(torch.float32)
    publishers_config(folder, {"global_head_dim": 2 * size.width, "num_global_key_value_heads": 1})


def shapes(model: Model) -> str:
    """Names and shapes of the text stack's tensors, a line each. What both stacks share is the encoder's to torch."""
    found = {name: tuple(value.shape) for name, value in model.named_parameters() if "vision" not in name}
    found |= {name: (1,) for name, _ in model.named_buffers() if name.endswith("layer_scalar")}
    return "".join(f"{name}\t{' '.join(map(str, shape))}\n" for name, shape in sorted(found.items()))


@torch.no_grad()
def make(name: str) -> None:
    folder, size = HERE / name, SIZES[name]
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = make_tokenizer("<bos> $A", (*TURNS["gemma4"], *CHANNELS))
    ids = torch.tensor([tokenizer(PROMPT.format(*TURNS["gemma4"])).input_ids])
    seed = 1
    model = build(size, seed)
    save(model, folder, tokenizer, size)
    if name != "diffusion":
        (folder / "model.safetensors").unlink()
        (folder / "tensors.tsv").write_text(shapes(model))
    model = build(size, seed)
    np.savez_compressed(folder / "golden.npz", seed=seed, **forward(model, ids))
    for title, run, draws in runs(RUNS[name], model, nudged(size, seed), ids):
        assert sum(map(len, (run.first, run.arrays["u"]))) == len(draws.tokens)
        arrays = run.stacked()
        saved = {
            key: arrays[key].astype(np.uint16) for key in ("canvas", "left", "token", "made", "likeliest")
        }
        saved |= {key: arrays[key] for key in ("u", "accepted", "entropy", "finished")}
        np.savez_compressed(
            folder / f"run_{title}.npz",
            settings=run.settings.manifest(),
            max_tokens=run.settings.max_tokens,
            answer=run.made,
            tokens_per_forward=run.tokens_per_forward,
            first=np.stack(run.first).astype(np.uint16),
            **saved,
        )
        print(name, title, len(arrays["left"]), "steps", run.made.tolist())


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or SIZES:
        make(name)


if __name__ == "__main__":
    main()
