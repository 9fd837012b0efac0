"""Runs of transformers' DiffusionGemma with recorded noise, and whether anything in them was close."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from transformers.models.diffusion_gemma.generation_diffusion_gemma import EntropyBoundSamplerConfig
from transformers.models.diffusion_gemma.modeling_diffusion_gemma import (
    DiffusionGemmaForBlockDiffusion as Model,
)

Arrays = dict[str, np.ndarray]

LOGITS = 1e-3  # margin of the likeliest token, in logits that reach 30
ENTROPY = 1e-3  # margin of every comparison of entropies, in nats
ROUTED = 2e-4  # margin of the last expert that serves a row over the next: of the ratio of probabilities
DRAWN = 1e-3  # least probability of a token that is drawn and accepted


class CloseError(Exception):
    """Something in a run was close: it is given up at once."""


@dataclass(frozen=True)
class Settings:
    max_tokens: int
    steps: int
    t_min: float
    t_max: float
    bound: float
    stability: int
    confidence: float
    ends: tuple[int, ...] = (1, 106, 50)

    def manifest(self) -> str:
        """As `inference.diffusionGemma` of a manifest writes them, JSON."""
        return json.dumps(
            {
                "maxDenoisingSteps": self.steps,
                "tMin": self.t_min,
                "tMax": self.t_max,
                "entropyBound": self.bound,
                "stabilityThreshold": self.stability,
                "confidenceThreshold": self.confidence,
                "eosTokenIds": self.ends,
            }
        )


@dataclass
class Draws:
    """What replaces torch's random draws in generate(): those of a seed, or those recorded before."""

    seed: int
    before: "Draws | None" = None
    tokens: list[np.ndarray] = field(default_factory=list)
    u: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.RandomState(self.seed)

    def randint(self, *_: Any, low: int, high: int, size: tuple[int, ...], **__: Any) -> torch.Tensor:
        drawn = self.before.tokens[len(self.tokens)] if self.before else self._random.randint(low, high, size)
        self.tokens.append(drawn)
        return torch.from_numpy(drawn.astype(np.int64))

    def multinomial(self, weights: torch.Tensor, **_: Any) -> torch.Tensor:
        """The first token at which the running sum exceeds u."""
        sums = np.cumsum(weights.double().numpy(), -1)
        sums /= sums[:, -1:]
        u = self.before.u[len(self.u)] if self.before else self._random.random_sample(len(sums))
        found = np.minimum((sums <= u[:, None]).sum(-1), sums.shape[1] - 1)
        ends = np.take_along_axis(sums, found[:, None], 1)[:, 0]
        begins = np.where(found > 0, np.take_along_axis(sums, np.maximum(found - 1, 0)[:, None], 1)[:, 0], 0)
        self.u.append(((begins + ends) / 2).astype(np.float32))
        return torch.from_numpy(found)[:, None]


@dataclass
class Run:
    """A run of generate(): one entry per step in each list."""

    settings: Settings
    made: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tokens_per_forward: float = 0.0
    first: list[np.ndarray] = field(default_factory=list)
    arrays: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, **values: Any) -> None:
        for name, value in values.items():
            self.arrays.setdefault(name, []).append(value)

    def stacked(self) -> Arrays:
        return {name: np.stack(values) for name, values in self.arrays.items()}


@contextmanager
def watched(model: Model, run: Run, draws: Draws) -> Iterator[None]:
    """Record what generate() does within; CloseError where rounding could decide."""
    step, prepare = model._denoising_step, model._prepare_denoiser_inputs
    routers = [module for name, module in model.named_modules() if name.endswith("router")]

    def routed(_: Any, __: Any, out: tuple[torch.Tensor, ...]) -> None:
        best = out[0].topk(out[1].shape[-1] + 1).values
        if not (best[:, -2] > best[:, -1] * (1 + ROUTED)).all():
            raise CloseError("which expert serves a row")

    def begun(**given: Any) -> Any:
        out = prepare(**given)
        run.first.append(out[0][0].numpy().copy())
        return out

    def stepped(**given: Any) -> Any:
        seen: list[torch.Tensor] = []

        def forward(**inputs: Any) -> Any:
            out = given["decoder_forward"](**inputs)
            seen.append(out.logits[0])
            return out

        out = step(**{**given, "decoder_forward": forward})
        canvas, likeliest, scaled, finished = (one[0] for one in out)
        accepted = given["sampler"].accepted_token_mask[0]
        entropies = torch.distributions.Categorical(logits=scaled).entropy()
        run.add(
            canvas=len(run.first) - 1,
            left=given["cur_step"],
            u=draws.u[-1],
            token=draws.tokens[-1][0],
            made=canvas.numpy().copy(),
            likeliest=likeliest.numpy().copy(),
            accepted=accepted.numpy().copy(),
            entropy=entropies.numpy(),
            finished=bool(finished),
        )
        if not decided(seen[0], scaled, entropies, canvas, accepted, run.settings):
            raise CloseError("which tokens are accepted, or the end")
        return out

    with ExitStack() as stack:
        for name, value in (("_denoising_step", stepped), ("_prepare_denoiser_inputs", begun)):
            stack.enter_context(mock.patch.object(model, name, value))
        for name in ("randint", "multinomial"):
            stack.enter_context(mock.patch.object(torch, name, getattr(draws, name)))
        for router in routers:
            stack.callback(router.register_forward_hook(routed).remove)
        yield


def decided(
    logits: torch.Tensor,
    scaled: torch.Tensor,
    entropies: torch.Tensor,
    canvas: torch.Tensor,
    accepted: torch.Tensor,
    settings: Settings,
) -> bool:
    """Whether rounding could have decided nothing in this step."""
    best = logits.topk(2).values
    ranked = entropies.sort().values
    before = ranked.cumsum(0) - ranked
    last = int(accepted.sum()) - 1
    drawn = scaled.softmax(-1).gather(1, canvas[:, None])[accepted]
    clear = bool((best[:, 0] - best[:, 1] > LOGITS).all()) and bool((drawn > DRAWN).all())
    clear &= abs(float(entropies.mean()) - settings.confidence) > ENTROPY
    clear &= bool(((before - settings.bound).abs() > ENTROPY).all())
    return clear and (last + 1 == len(ranked) or float(ranked[last + 1] - ranked[last]) > ENTROPY)


def generated(model: Model, ids: torch.Tensor, settings: Settings, draws: Draws) -> Run:
    run = Run(settings)
    with watched(model, run, draws):
        out = model.generate(
            input_ids=ids,
            eos_token_id=list(settings.ends),
            pad_token_id=0,
            max_new_tokens=settings.max_tokens,
            max_denoising_steps=settings.steps,
            t_min=settings.t_min,
            t_max=settings.t_max,
            stability_threshold=settings.stability,
            confidence_threshold=settings.confidence,
            sampler_config=EntropyBoundSamplerConfig(entropy_bound=settings.bound),
        )
    run.made = out.sequences[0, ids.shape[1] :].numpy()
    run.tokens_per_forward = float(out.tokens_per_forward[0])
    return run


def steady(
    model: Model, nudged: Model, ids: torch.Tensor, settings: Settings, seed: int
) -> tuple[Run, Draws] | None:
    """A run that is clear, and the same with weights a little different."""
    draws = Draws(seed)
    try:
        run = generated(model, ids, settings, draws)
        other = generated(nudged, ids, settings, Draws(seed, draws))
    except CloseError:
        return None
    found, expected = other.stacked(), run.stacked()
    for name in ("made", "likeliest", "accepted"):
        if found[name].shape != expected[name].shape or (found[name] != expected[name]).any():
            return None
    return (run, draws) if np.abs(found["entropy"] - expected["entropy"]).max() < ENTROPY / 5 else None
