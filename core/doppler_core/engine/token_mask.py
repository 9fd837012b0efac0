"""What limits a request's tokens, held to its promise: takes the requester's mask, gives words that a step can read.

A mask is the requester's own code; whatever is wrong with it is an error of that request, and not of the step that
others share.
"""

from collections.abc import Sequence
from numbers import Integral
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
        self._forced = getattr(mask, "forced", None)
        self._vocabulary = vocabulary
        self._shape = (-(-vocabulary // 32),)

    @property
    def stopped(self) -> bool:
        """Whether the text is whole."""
        return bool(getattr(self._mask, "stopped", False))

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

    def forced(self) -> Sequence[int]:
        """The tokens that must come next, as far as the mask tells; they are not accepted by that."""
        if self._forced is None:
            return ()
        found: object = self._forced()
        if not isinstance(found, Sequence) or not all(map(self._is_token, found)):
            raise InputError(
                f"mask.forced() is {str(found)[:40]}: expected token ids, 0 to {self._vocabulary - 1}"
            )
        return [int(token) for token in found]

    def _is_token(self, token: object) -> bool:
        return isinstance(token, Integral) and 0 <= int(token) < self._vocabulary
