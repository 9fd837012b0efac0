"""DiffusionGemma's sampler: which tokens of a canvas are accepted, and when a canvas is done.

Takes a model and packed prompts, gives canvases. One step, `stepped`, is also what training makes its canvases with.
Formulas: Hugging Face transformers, `DiffusionGemmaForBlockDiffusion.generate`.
"""

from dataclasses import dataclass

import torch
from network import DiffusionModel
from rows import Batch
from torch import Tensor


@dataclass(frozen=True)
class Settings:
    """As generation_config.json has them."""

    steps: int = 48
    hot: float = 0.8  # temperature of the first step
    cold: float = 0.4  # the last step's is one step's share above it
    bound: float = 0.1  # nats that the accepted tokens may have together, the last one of them aside
    confident: float = 0.005  # nats a token, on average, below which a canvas that stood still is done

    def temperature(self, left: int) -> float:
        """Of the step after which `left` - 1 steps are left."""
        return self.cold + (self.hot - self.cold) * left / self.steps


@dataclass(frozen=True)
class Generated:
    """The likeliest tokens of each canvas's last step, and how many steps it took. [canvases, canvas], [canvases]."""

    canvas: Tensor
    steps: Tensor


def stepped(scaled: Tensor, bound: float, greedy: bool = False) -> tuple[Tensor, Tensor]:
    """The next canvas [canvases, canvas], and the entropy of each token in nats.

    scaled: logits divided by the temperature. Tokens are accepted by rising entropy while those before have `bound` at
    most together; all others are drawn evenly from the vocabulary.
    """
    logs = scaled.log_softmax(-1)
    shares = logs.exp()
    entropy = -(shares * logs).sum(-1)
    drawn = logs.argmax(-1) if greedy else torch.multinomial(shares.flatten(0, 1), 1).view(entropy.shape)
    ordered, order = entropy.sort(-1)
    accepted = torch.zeros_like(entropy, dtype=torch.bool).scatter(
        -1, order, ordered.cumsum(-1) - ordered <= bound
    )
    return torch.where(accepted, drawn, torch.randint_like(drawn, scaled.shape[-1])), entropy


@torch.no_grad()
def generate(model: DiffusionModel, batch: Batch, settings: Settings, greedy: bool = False) -> Generated:
    """One canvas for each prompt of the batch; greedy: the likeliest token in place of a drawn one."""
    shape, dtype = model.shape, torch.bfloat16
    with torch.autocast("cpu", dtype):
        kept = model.encode(batch.ids, batch.positions, batch.encoder_masks(shape, dtype))
        known, masks = batch.known(kept), batch.canvas_masks(shape, dtype)
        canvas = torch.randint_like(batch.right, shape.vocab)
        likeliest, before = torch.full_like(canvas, -1), None
        steps, done = torch.zeros(len(canvas), dtype=torch.long), torch.zeros(len(canvas), dtype=torch.bool)
        for left in range(settings.steps, 0, -1):
            logits = model.denoise(canvas, batch.canvas_positions(shape), masks, known, before)
            before = logits / settings.temperature(left)
            canvas, entropy = stepped(before, settings.bound, greedy)
            now = torch.where(done[:, None], likeliest, before.argmax(-1))
            steps += ~done
            done |= (now == likeliest).all(1) & (entropy.mean(1) < settings.confident)
            likeliest = now
            if done.all():
                break
    model.uneven.clear()
    return Generated(likeliest, steps)
