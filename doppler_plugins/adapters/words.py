"""The constructor words of the embedding adapters, the same for every framework, checked when one is constructed.

Takes keyword arguments and DOPPLER_PLUGINS_* variables; gives settings, options and a lazy engine. Nothing is opened
or read. What only the model knows (its dimensions, its prompts) is checked at the first use.
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, StrictInt, model_validator

from doppler_core.engine.request import OutputType
from doppler_core.settings import EngineSettings, Overflow
from doppler_plugins.adapters.embed_options import EmbedOptions
from doppler_plugins.adapters.model_words import ModelWords, Word

_OPTIONS = tuple(field.name for field in fields(EmbedOptions))


def setting_words(settings: EngineSettings) -> dict[str, Any]:
    """Settings as constructor words of an embedding adapter. Vectors take no slots: nothing of a text is kept from
    step to step."""
    return {field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "slots"}


class EmbeddingWords(ModelWords):
    """The words of every model, and how it embeds. What can't be assigned, copied or pickled is as in `ModelWords`."""

    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"model_name": "model", "truncate_dim": "dimensions"}
    )

    dimensions: Word[StrictInt | None] = None
    """Length of a vector, one of those the model was trained for; None = all. Also `truncate_dim`."""
    task: Word[str | None] = None
    """A prompt of the checkpoint for queries and documents alike: "Clustering", "STS", ..."""
    query_prompt_name: Word[str | None] = None
    """The checkpoint's prompt for queries; None = its query prompt."""
    document_prompt_name: Word[str | None] = None
    """The checkpoint's prompt for documents; None = its document prompt."""
    query_prompt: Word[str | None] = None
    """The prompt for queries word for word; "" = none."""
    document_prompt: Word[str | None] = None
    """The prompt for documents word for word; "" = none."""
    title: Word[str | None] = None
    """Title of every document that brings none of its own."""
    overflow: Word[Overflow] = "error"
    """A text over the model's tokens: "error", or "truncate" cuts its end and says so in the log."""
    output_dtype: Word[OutputType] = "float32"
    """"float32"; "int8" and "binary" give lists of ints (binary: sign bits, eight in each)."""

    _options: EmbedOptions = PrivateAttr()

    @model_validator(mode="after")
    def _choose_options(self) -> Self:
        self._options = EmbedOptions(**{name: getattr(self, name) for name in _OPTIONS})
        return self
