"""Where training starts: latent semantic analysis of the passages and their questions.

Takes token ids grouped by passage, gives one direction per token and how telling the token is. From random
numbers the same training needs many times as long on two cores. Knows nothing of the model.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

UNSEEN = 0.5  # a piece that occurs in no passage may be part of anything: middling


def word_statistics(grouped: list[list[int]], vocab: int, width: int) -> tuple[Tensor, Tensor]:
    """Unit rows[vocab, width] in which tokens of the same passages lie close, and their rarity[vocab], 0..1.

    Rarity is the inverse document frequency as a share of its highest value, log(N).
    """
    counts = torch.stack([torch.bincount(torch.tensor(ids), minlength=vocab) for ids in grouped], dim=1)
    frequency = (counts > 0).sum(1)
    rarity = (len(grouped) / frequency.clamp(min=1)).log() / math.log(len(grouped))
    left, singular, _ = torch.linalg.svd((1.0 + counts).log() * rarity[:, None], full_matrices=False)
    rows = left[:, :width] * singular[:width].sqrt()
    # A random turn spreads the strongest directions over all elements, so that a cut vector keeps its share.
    turn = torch.linalg.qr(torch.randn(width, width))[0]
    seen = frequency > 0
    rows = torch.where(seen[:, None], rows @ turn, torch.randn(vocab, width))
    return F.normalize(rows, dim=-1), torch.where(seen, rarity, UNSEEN)
