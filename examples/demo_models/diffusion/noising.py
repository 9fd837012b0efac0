"""Right canvases to canvases that the model has to put right.

Takes tensors, gives tensors. Knows nothing of the model.
"""

import torch
from rows import PAD
from torch import Tensor

_ALL_NOISE = 0.2  # share of the canvases of which no token is kept on purpose: every run begins with one
_BEGUN = 0.5  # share of the canvases that are right up to some place: so an answer mostly forms


def noised(right: Tensor, vocab: int) -> Tensor:
    """A random share of the tokens kept, the others drawn evenly from the vocabulary. right [canvases, canvas]."""
    count, places = len(right), torch.arange(right.shape[1])
    share = torch.rand(count, 1) * (torch.rand(count, 1) >= _ALL_NOISE)
    answer = (right != PAD).sum(1, keepdim=True)
    begun = torch.rand(count, 1) * (answer + 1) * (torch.rand(count, 1) < _BEGUN)
    kept = (torch.rand(right.shape) < share) | (places < begun.floor())
    return torch.where(kept, right, torch.randint_like(right, vocab))
