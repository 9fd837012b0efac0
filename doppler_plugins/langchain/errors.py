"""Errors that are both this project's and LangChain's, so that handlers of either catch them.

`translated` turns the one into the other at the adapter's edge; core knows nothing of LangChain.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core import exceptions

from doppler_core import errors


def _framework(name: str) -> Any:
    # LangChain has had one class per cause only since the 1.x line grew them; before, its root stands for all.
    return getattr(exceptions, name, exceptions.LangChainException)


class TextTooLongError(errors.TextTooLongError, _framework("ContextOverflowError")):  # type: ignore[misc]
    """A text has more tokens than the model takes."""


class InputError(errors.InputError, _framework("ModelInvalidRequestError")):  # type: ignore[misc]
    """A text, size or option can't be served by this model."""


class UnsupportedModalityError(errors.UnsupportedModalityError, _framework("ModelInvalidRequestError")):  # type: ignore[misc]
    """An image, a sound or a video for a model that takes none."""


class NoChatFormatError(errors.NoChatFormatError, _framework("ModelInvalidRequestError")):  # type: ignore[misc]
    """A conversation for a base model, which goes on with a text: `DopplerLLM` is for those."""


class ModelNotFoundError(errors.ModelNotFoundError, _framework("ModelNotFoundError")):  # type: ignore[misc]
    """A model name or path leads to nothing that can be opened."""


class DeviceLostError(errors.DeviceLostError, _framework("ModelAPIError")):  # type: ignore[misc]
    """The device went away; LangChain's retry middleware may try again."""


class OutputError(exceptions.OutputParserException, errors.OutputError):
    """An answer is not what was asked for; `llm_output` is what it is."""


class AnswerTimeoutError(_framework("ModelTimeoutError"), TimeoutError):  # type: ignore[misc]
    """An answer took longer than `timeout`; LangChain's retry middleware may try again."""


# A subclass comes before its base.
_TRANSLATIONS: tuple[tuple[type[Exception], type[Exception]], ...] = (
    (TimeoutError, AnswerTimeoutError),
    (errors.TextTooLongError, TextTooLongError),
    (errors.UnsupportedModalityError, UnsupportedModalityError),
    (errors.NoChatFormatError, NoChatFormatError),
    (errors.InputError, InputError),
    (errors.ModelNotFoundError, ModelNotFoundError),
    (errors.DeviceLostError, DeviceLostError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise core's errors, and a passed timeout, as the classes above, from the original; let all others pass."""
    try:
        yield
    except (errors.DopplerError, TimeoutError) as error:
        for ours, joint in _TRANSLATIONS:
            if isinstance(error, ours):
                raised = joint(*error.args)
                vars(raised).update(vars(error))
                raise raised from error
        raise
