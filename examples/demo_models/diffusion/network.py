"""DiffusionGemma in plain torch: one set of weights that encodes known tokens causally and denoises canvases.

Takes packed prompts and canvases with their masks, gives keys and values, hidden states, logits. Parameter names are
those of a checkpoint. Knows nothing of text, files or how canvases are noised.
"""

import math
from collections.abc import Sequence

import beside  # noqa: F401
import torch
import torch.nn.functional as F
from layers import KeysValues, Layer, Shape, start
from model import FULL, SLIDING, Mlp, Norm, rotation, soft_capped
from torch import Tensor, nn

Masks = dict[str, Tensor]


class SelfConditioning(Mlp):
    """What the step before expected, added to what is on the canvas."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.pre_norm = Norm(shape.hidden, 1.0, shape.eps)
        self.post_norm = Norm(shape.hidden, None, shape.eps)

    def forward(self, x: Tensor, expected: Tensor) -> Tensor:
        return self.post_norm(x + super().forward(self.pre_norm(expected)))


class Decoder(nn.Module):
    """All weights but the encoder's factors."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.self_conditioning = SelfConditioning(shape)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(len(shape.kinds)))
        self.norm = Norm(shape.hidden, 1.0, shape.eps)


class Factor(nn.Module):
    """What the encoder multiplies a layer's stream by."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_scalar = nn.Parameter(torch.ones(1))


class DiffusionModel(nn.Module):
    """Both modes. `uneven` holds what the routers of the last calls said; whoever trains empties it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.uneven: list[Tensor] = []
        factors = nn.ModuleList(Factor() for _ in shape.kinds)
        encoder = nn.ModuleDict({"language_model": nn.ModuleDict({"layers": factors})})
        self.model = nn.ModuleDict({"decoder": Decoder(shape), "encoder": encoder})
        start(self)

    @property
    def decoder(self) -> Decoder:
        return self.model["decoder"]

    @property
    def factors(self) -> nn.ModuleList:
        return self.model["encoder"]["language_model"]["layers"]

    def encode(self, ids: Tensor, positions: Tensor, masks: Masks) -> list[KeysValues]:
        """ids, positions [rows, tokens], masks [rows, 1, tokens, tokens] -> each layer's keys and values."""
        *others, last = self.decoder.layers
        rotations, kinds = self._rotations(positions), self.shape.kinds
        x, kept = self._embedded(ids), []
        for layer, factor, kind in zip(others, self.factors, kinds, strict=False):
            x, own = self._run(layer, x, rotations[kind], masks[kind], factor.layer_scalar, None)
            kept.append(own)
        kept.append(last.keys_and_values(x, *rotations[kinds[-1]], masks[kinds[-1]].dtype))
        return kept

    def denoise(
        self,
        canvas: Tensor,
        positions: Tensor,
        masks: Masks,
        known: Sequence[KeysValues],
        before: Tensor | None,
    ) -> Tensor:
        """Logits [canvases, tokens, vocabulary] in F32 of one step.

        canvas, positions [canvases, tokens]; masks [canvases, 1, tokens, known + tokens]; known: each layer's keys and
        values of the prompts, a row a canvas; before: the logits of the step before, divided by its temperature.
        """
        decoder, rotations = self.decoder, self._rotations(positions)
        x = self._embedded(canvas)
        expected = torch.zeros_like(x) if before is None else self._expected(before)
        x = decoder.self_conditioning(x, expected)
        for layer, kind, keys_values in zip(decoder.layers, self.shape.kinds, known, strict=True):
            x, _ = self._run(layer, x, rotations[kind], masks[kind], layer.layer_scalar, keys_values)
        logits = F.linear(decoder.norm(x), decoder.embed_tokens.weight).float()
        return soft_capped(logits, self.shape.softcap)

    def _run(
        self,
        layer: Layer,
        x: Tensor,
        turned: tuple[Tensor, Tensor],
        mask: Tensor,
        scalar: Tensor,
        before: KeysValues | None,
    ) -> tuple[Tensor, KeysValues]:
        run = layer if torch.is_grad_enabled() else layer.forward  # the compiled form is for training
        x, own, uneven = run(x, *turned, mask, scalar, before)
        self.uneven.append(uneven)
        return x, own

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.decoder.embed_tokens(ids) * math.sqrt(self.shape.hidden)

    def _expected(self, logits: Tensor) -> Tensor:
        table = self.decoder.embed_tokens.weight
        return torch.matmul(logits.softmax(-1), table) * math.sqrt(self.shape.hidden)

    def _rotations(self, positions: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        shape = self.shape
        return {
            SLIDING: rotation(positions, shape.head_dim, shape.theta_sliding, 1.0),
            FULL: rotation(positions, shape.full_head_dim, shape.theta_full, shape.rotated),
        }
