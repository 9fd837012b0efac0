"""What limits a request's tokens, held to its promise: takes the requester's mask, gives words that a step can read.

A mask is the requester's own code; whatever is wrong with it is an error of that request, and not of the step that
others share.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.engine.request import TokenMask
from doppler_core.errors import InputError


class CheckedMask:
    """A TokenMask whose words are as many as the vocabulary needs. InputError for anything else."""

    def __init__(self, mask: Any, vocabulary: int) -> None:
        if not all(callable(getattr(mask, name, None)) for name in ("words", "accept")):
            raise InputError(
                f"mask makes a {type(mask).__name__}: expected a TokenMask, with `words` and `accept`"
            )
        self._mask: TokenMask = mask
        self._shape = (-(-vocabulary // 32),)

    def words(self) -> npt.NDArray[np.uint32]:
        """The tokens that may come next, [ceil(vocabulary / 32)]."""
        words: object = self._mask.words()
        if not isinstance(words, np.ndarray) or words.dtype != np.uint32 or words.shape != self._shape:
            shown = (
                f"{words.dtype} of shape {words.shape}"
                if isinstance(words, np.ndarray)
                else type(words).__name__
            )
            raise InputError(
                f"mask.words() is {shown}: expected an array of uint32 of shape {self._shape}, a bit for each token"
            )
        return words

    def accept(self, token: int) -> None:
        """The token that came."""
        self._mask.accept(token)
