"""What a chat model can do, in LangChain's words, read from its capabilities when somebody first asks.

A dict that fills itself: constructing an adapter opens nothing, and a profile is there before the model is.
"""

from collections.abc import Callable, Iterator
from typing import Any

from doppler_core.engine.request import Capabilities
from doppler_plugins.adapters.generating import capabilities
from doppler_plugins.adapters.lazy_engine import LazyEngine


def profile_of(name: str, can: Capabilities) -> dict[str, Any]:
    """LangChain's `ModelProfile`."""
    return {
        "name": name,
        "open_weights": True,
        "max_input_tokens": can.context_length,
        "max_output_tokens": can.context_length,
        "text_inputs": "text" in can.modalities_in,
        "image_inputs": "image" in can.modalities_in,
        "image_url_inputs": False,
        "audio_inputs": "audio" in can.modalities_in,
        "video_inputs": "video" in can.modalities_in,
        "pdf_inputs": False,
        "image_tool_message": False,
        "pdf_tool_message": False,
        "text_outputs": can.generates,
        "image_outputs": False,
        "audio_outputs": False,
        "video_outputs": False,
        "reasoning_output": can.reasoning,
        "tool_calling": can.tools,
        "tool_choice": can.tools and can.structured,
        "tool_call_streaming": can.tools,
        "structured_output": can.structured,
        "temperature": can.generates,
    }


class LazyProfile(dict[str, Any]):
    """The profile of a model that opens when the first key is read. A copy or a pickle starts unread."""

    def __init__(self, lazy: LazyEngine) -> None:
        super().__init__()
        self._lazy = lazy

    def _read(self) -> "LazyProfile":
        if not dict.__len__(self):
            self.update(profile_of(self._lazy.spec[0], capabilities(self._lazy)))
        return self

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return dict.__len__(self._read())

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._read())

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._read(), key)

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._read(), key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        return dict.get(self._read(), key, default)

    def keys(self) -> Any:
        """Every key."""
        return dict.keys(self._read())

    def values(self) -> Any:
        """Every value."""
        return dict.values(self._read())

    def items(self) -> Any:
        """Every key with its value."""
        return dict.items(self._read())

    def copy(self) -> dict[str, Any]:
        """A dict of its own."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyProfile) and other._lazy == self._lazy:
            return True
        return dict.__eq__(self._read(), other)

    __hash__ = None

    def __repr__(self) -> str:
        return dict.__repr__(self) if dict.__len__(self) else f"LazyProfile({self._lazy.spec[0]!r}, unread)"

    def __reduce__(self) -> tuple[Callable[..., "LazyProfile"], tuple[LazyEngine]]:
        return LazyProfile, (self._lazy,)
