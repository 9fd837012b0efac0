"""What a user may say about embedding, and the request it makes. It knows neither frameworks nor model types.

Takes the options of an adapter, texts and the capabilities of an open model; gives an EmbedRequest.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from doppler_core.engine.request import Capabilities, EmbedRequest, OutputType
from doppler_core.errors import SettingsError
from doppler_core.settings import Overflow

Kind = Literal["query", "document"]

#: Names under which checkpoints keep the prompt of a kind, the first one found counts (sentence-transformers' habit).
_NAMES: dict[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}


@dataclass(frozen=True)
class EmbedOptions:
    """How an adapter embeds. Raises SettingsError for what no model could serve.

    task: a prompt of the checkpoint for queries and documents alike ("Clustering", "STS", ...).
    query_prompt_name, document_prompt_name: a prompt of the checkpoint for one kind; beats `task`.
    query_prompt, document_prompt: the prompt itself ("" = none); beats the names.
    title: title of every document that brings none of its own.
    dimensions, overflow, output_dtype: as in EmbedRequest.
    """

    dimensions: int | None = None
    task: str | None = None
    query_prompt_name: str | None = None
    document_prompt_name: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    title: str | None = None
    overflow: Overflow = "error"
    output_dtype: OutputType = "float32"

    def __post_init__(self) -> None:
        size = self.dimensions
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size <= 0):
            raise SettingsError(f"dimensions={size!r}: expected a positive whole number, or None for all")
        for name, choices in (("overflow", Overflow), ("output_dtype", OutputType)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise SettingsError(f"{name}={value!r}: expected one of {', '.join(get_args(choices))}")
        for name in ("task", "query_prompt_name", "document_prompt_name"):
            if getattr(self, name) == "":
                raise SettingsError(
                    f"{name}='': expected a prompt's name; for no prompt give query_prompt='' or document_prompt=''"
                )
        for kind in get_args(Kind):
            if self.literal(kind) is not None and getattr(self, f"{kind}_prompt_name") is not None:
                raise SettingsError(f"{kind}_prompt and {kind}_prompt_name: give one of the two")

    def literal(self, kind: Kind) -> str | None:
        """The prompt given word for word, if one was."""
        return self.query_prompt if kind == "query" else self.document_prompt

    def prompt_name(self, kind: Kind, capabilities: Capabilities) -> str | None:
        """The prompt of the checkpoint that a kind takes; None where the checkpoint has none for it."""
        named = self.query_prompt_name if kind == "query" else self.document_prompt_name
        conventional = next((name for name in _NAMES[kind] if name in capabilities.prompts), None)
        return named or self.task or conventional

    def takes_titles(self, capabilities: Capabilities) -> bool:
        """Whether the prompt of documents has a place for a title."""
        return self.document_prompt is None and (
            self.prompt_name("document", capabilities) in capabilities.title_prompts
        )


def embed_request(
    options: EmbedOptions,
    kind: Kind,
    texts: Sequence[str],
    titles: Sequence[str | None] | None,
    capabilities: Capabilities,
) -> EmbedRequest:
    """The request for `texts`; `titles` (one per text, documents only) beat `options.title`."""
    if kind == "document" and options.title is not None:
        titles = [options.title if title is None else title for title in titles or [None] * len(texts)]
    name = options.prompt_name(kind, capabilities)
    literal = options.literal(kind)
    return EmbedRequest(
        texts=tuple(texts),
        prompt_name=name or kind,
        prompt="" if name is None and literal is None else literal,
        titles=None if titles is None or not any(titles) else tuple(titles),
        dimensions=options.dimensions,
        overflow=options.overflow,
        output_dtype=options.output_dtype,
    )


def namespace(options: EmbedOptions, kind: Kind, identity: str, capabilities: Capabilities) -> str:
    """A name for all vectors made alike: `document-<16 hex digits>` differs when anything about them differs.

    Only letters, digits and hyphens, so that it can be a folder, a table or a key prefix.
    """
    facts = {
        "identity": identity,
        "kind": kind,
        "prompt": options.literal(kind),
        "prompt_name": options.prompt_name(kind, capabilities),
        "title": options.title if kind == "document" else None,
        "dimensions": options.dimensions or max(capabilities.dimensions, default=None),
        "overflow": options.overflow,
        "output_dtype": options.output_dtype,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{kind}-{digest[:16]}"
