"""The constructor words that every adapter has: which model, on what, and how long it stays open.

Takes keyword arguments and DOPPLER_PLUGINS_* variables; gives settings and a lazy engine. Nothing is opened or read.
It knows neither frameworks nor what is asked of the model.
"""

import asyncio
import copy
import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType, TracebackType
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, StrictInt, model_validator

from doppler_core.errors import SettingsError
from doppler_core.settings import EngineSettings
from doppler_plugins.adapters.lazy_engine import LazyEngine

_SETTINGS = tuple(field.name for field in fields(EngineSettings))


def path_as_text(value: Any) -> Any:
    """A path as its text, anything else as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


T = TypeVar("T")
Word = Annotated[T, Field(frozen=True)]
PathText = Annotated[str, BeforeValidator(path_as_text)]


#: What other engines call it.
ELSEWHERE: Mapping[str, str] = {
    "num_predict": "max_tokens",
    "n_predict": "max_tokens",
    "num_ctx": "context_length",
    "n_ctx": "context_length",
    "max_model_len": "context_length",
    "context_window": "context_length",
    "n_gpu_layers": "device",
    "num_gpu": "device",
    "repeat_penalty": "repetition_penalty",
    "reasoning": "thinking",
    "format": "response_format",
}


def meant(word: str, known: Sequence[str], beside: Iterable[str] = ()) -> str:
    """What somebody meant by a word that there is not. known: words that there are; beside: others to be offered for a
    misspelt one."""
    if ELSEWHERE.get(word) in (*known, *beside):
        return f"here it is {ELSEWHERE[word]!r}"
    near = difflib.get_close_matches(word, [*known, *beside], n=1)
    return f"did you mean {near[0]!r}?" if near else f"expected some of {', '.join(known)}"


class ModelWords(BaseModel):
    """Fields of an adapter, none of which can be assigned later; make a changed copy with `model_copy`.

    A setting left at None comes from its DOPPLER_PLUGINS_* variable, else from its default. Copies and pickles keep the
    settings and open an engine of their own (shared with every equal one).
    """

    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({"model_name": "model"})
    """Words that users of the frameworks know from other classes, and what they are called here."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Words of hosted models that have no meaning here, taken and left alone."""

    model: Word[Annotated[PathText, Field(min_length=1)]]
    """A bundled or cached name, an artifact, a GGUF file, a Hugging Face folder, or `hf:org/name[@revision]`."""
    precision: Word[str | None] = None
    """Which of the checkpoint's shipped manifests: "f16", "q8_0", "q4k"; None = its default."""
    manifest: Word[PathText | None] = None
    """Path of a manifest that replaces the model's own."""
    device: Word[str | None] = None
    """"auto", "wgpu", "wgpu:<part of the GPU adapter's name, or its index>" or "numpy"."""
    kernel_profile: Word[str | None] = None
    """Name of a kernel profile; None = the first that fits the GPU adapter."""
    context_length: Word[StrictInt | None] = None
    """Most tokens of one text; None = the model's own, for a model that generates text at most 8192."""
    memory_limit: Word[StrictInt | None] = None
    """Bytes that the engines of this process may use; None = 80 % of what is free."""
    cache_dir: Word[PathText | None] = None
    """Where converted models are kept."""
    revision: Word[str | None] = None
    """Commit or tag of an `hf:` model."""
    offline: Word[bool | None] = None
    """True = never use the network."""
    keep_alive: Word[float | None] = None
    """Seconds an unused engine stays open; None = until `close`."""

    _lazy: LazyEngine = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _know_every_word(cls, words: Any) -> Any:
        if not isinstance(words, Mapping):
            return words
        words = dict(words)
        for alias, word in cls.aliases.items():
            if alias in words:
                # A framework's base class may have the alias as a field of its own.
                value = words[alias] if alias in cls.model_fields else words.pop(alias)
                if words.setdefault(word, value) is not value and words[word] != value:
                    raise SettingsError(
                        f"{alias}={value!r} and {word}={words[word]!r}: two names of one word"
                    )
        known = sorted(cls.model_fields)
        for word in [word for word in words if word not in known]:
            if word in cls.ignored:
                del words[word]
                continue
            hint = meant(str(word), known, cls.aliases)
            raise SettingsError(f"{cls.__name__} has no word {word!r}: {hint}")
        return words

    @model_validator(mode="after")
    def _settle(self) -> Self:
        names = [name for name in _SETTINGS if name in type(self).model_fields]
        settings = EngineSettings.from_environment(**{name: getattr(self, name) for name in names})
        # Fields are frozen for users; here they take what the environment said, once and for every copy.
        self.__dict__.update({name: getattr(settings, name) for name in names})
        self._lazy = LazyEngine(self.model, settings, self.keep_alive)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some words changed, checked like a new one."""
        # Frameworks keep more in __dict__ than fields.
        names = [name for name in type(self).model_fields if name not in self.aliases]
        words = {name: self.__dict__[name] for name in names}
        changes = {self.aliases.get(name, name): value for name, value in (update or {}).items()}
        return type(self)(**{**(copy.deepcopy(words) if deep else words), **changes})

    def __copy__(self) -> Self:
        return self.model_copy()

    def warmup(self) -> None:
        """Open the model and compile its kernels now instead of at the first request."""
        with self._lazy.using() as engine:
            engine.warmup()

    async def awarmup(self) -> None:
        """`warmup` on an event loop."""
        await asyncio.to_thread(self.warmup)

    def close(self) -> None:
        """Give the engine back; later calls raise EngineClosedError. Copies are not closed."""
        self._lazy.close()

    async def aclose(self) -> None:
        """`close` on an event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
