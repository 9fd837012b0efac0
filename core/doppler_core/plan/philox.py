"""Random numbers that anybody can make again: Philox-4x32-10, keyed by a seed, counted by position and token.

From "Parallel random numbers: as easy as 1, 2, 3" (Salmon, Moraes, Dror, Shaw, 2011). wgsl/philox.wgsl makes the same
words. It knows no logits.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counters: Words, key: tuple[int, int]) -> Words:
    """The four words of each counter. counters u32 [n, 4], key two 32-bit numbers -> u32 [n, 4]."""
    a, b, c, d = (word.astype(np.uint64) for word in counters.T)
    for number in range(_ROUNDS):
        first, second = (
            np.uint64(word + number * step & 0xFFFFFFFF) for word, step in zip(key, _KEY_STEPS, strict=True)
        )
        product, other = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (other >> _HIGH) ^ b ^ first,
            other & _LOW,
            (product >> _HIGH) ^ d ^ second,
            product & _LOW,
        )
    return np.stack([a, b, c, d], -1).astype(np.uint32)


def key_of(seed: int) -> tuple[int, int]:
    """The key of a seed of 64 bits, its low word first."""
    return seed & 0xFFFFFFFF, seed >> 32


def token_words(seed: int, position: int, tokens: npt.NDArray[np.integer]) -> Words:
    """The word of each token at a position: word `token % 4` of the counter (position, token / 4, 0, 0).

    seed: 64 bits, the low word first in the key. tokens [n] -> u32 [n]. A word depends on nothing else: not on the
    other tokens, nor on the batch.
    """
    first, last = int(tokens.min()) // 4, int(tokens.max()) // 4
    if last - first < len(tokens):  # fewer blocks than tokens: each one once
        words: Words = _blocks(seed, position, np.arange(first, last + 1)).reshape(-1)[tokens - 4 * first]
    else:
        words = _blocks(seed, position, tokens // 4)[np.arange(len(tokens)), tokens % 4]
    return words


def _blocks(seed: int, position: int, blocks: npt.NDArray[np.integer]) -> Words:
    counters = np.zeros((len(blocks), 4), np.uint32)
    counters[:, 0], counters[:, 1] = position, blocks
    return philox(counters, key_of(seed))


def gumbel(words: Words) -> npt.NDArray[np.float32]:
    """Gumbel noise -log(-log u) with u = (word + 1/2) / 2^32, from -3.2 to 22.9. u32 [n] -> f32 [n]."""
    u = (words + 0.5) / 2.0**32
    noise: npt.NDArray[np.float32] = (-np.log(-np.log(u))).astype(np.float32)
    return noise
