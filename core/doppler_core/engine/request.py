"""What an engine is asked and what it answers: plain data, no behaviour."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from doppler_core.settings import Overflow

OutputType = Literal["float32", "int8", "binary"]


@dataclass(frozen=True)
class EmbedRequest:
    """Texts to embed, all with the same options.

    prompt_name: a prompt of the checkpoint ("query", "document", "Clustering", ...).
    prompt: a literal prompt that replaces the named one ("" = none).
    titles: per text, for the document prompt; None = no title.
    dimensions: 768, 512, 256 or 128 for EmbeddingGemma; None = all.
    overflow: what to do with a text over the model's tokens: "error", or "truncate" its end.
    output_dtype: "float32"; "int8" (round(127 v)); "binary" (sign bits, eight a byte, packed like np.packbits).
    """

    texts: tuple[str, ...]
    prompt_name: str = "document"
    prompt: str | None = None
    titles: tuple[str | None, ...] | None = None
    dimensions: int | None = None
    overflow: Overflow = "error"
    output_dtype: OutputType = "float32"


@dataclass(frozen=True)
class EmbedResult:
    """Vectors in the order of the texts.

    vectors: [texts, dimensions] float32 or int8, or [texts, dimensions / 8] uint8 for "binary".
    tokens: per text, as run (prompt, begin and end tokens included).
    truncated: indices of the texts that were cut.
    """

    vectors: npt.NDArray[np.float32] | npt.NDArray[np.int8] | npt.NDArray[np.uint8]
    tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Capabilities:
    """What a model can do; adapters ask this and never a model type's name.

    prompts: names of the checkpoint's prompts; title_prompts: those of them with a place for a document's title.
    """

    embeds: bool = False
    generates: bool = False
    streams_drafts: bool = False
    tools: bool = False
    structured: bool = False
    reasoning: bool = False
    logprobs: bool = False
    modalities_in: tuple[str, ...] = ("text",)
    context_length: int = 0
    dimensions: tuple[int, ...] = ()
    prompts: tuple[str, ...] = ()
    title_prompts: tuple[str, ...] = ()
