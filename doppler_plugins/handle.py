"""A model named but not opened: what framework objects hold, so that building, copying and pickling them is free."""

import threading
from typing import TYPE_CHECKING, Any

from doppler_core.settings import EngineSettings, Progress

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine


class EngineHandle:
    """A model and its settings; `engine()` opens it the first time, from any thread.

    A deep copy is the handle itself and a pickle holds the two values only, so that copies share one engine.
    Handles of equal values are equal.
    """

    __slots__ = ("__weakref__", "_engine", "_lock", "model", "settings")

    def __init__(self, model: str, settings: EngineSettings | None = None) -> None:
        self.model = model
        self.settings = EngineSettings() if settings is None else settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def engine(self, progress: Progress | None = None) -> "Engine":
        """The engine, opened if it is not; raise what `open_engine` raises, and try again at the next call."""
        from doppler_plugins.opening import open_engine

        with self._lock:
            if self._engine is None or self._engine.closed:
                self._engine = open_engine(self.model, self.settings, progress)
            return self._engine

    @property
    def is_open(self) -> bool:
        """Whether this handle holds an open engine."""
        engine = self._engine
        return engine is not None and not engine.closed

    def close(self) -> None:
        """Drop this handle's share of the engine; the next `engine()` opens it again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def __copy__(self) -> "EngineHandle":
        return self

    def __deepcopy__(self, memo: Any) -> "EngineHandle":
        return self

    def __reduce__(self) -> tuple[type["EngineHandle"], tuple[str, EngineSettings]]:
        return type(self), (self.model, self.settings)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EngineHandle):
            return NotImplemented
        return (self.model, self.settings) == (other.model, other.settings)

    def __hash__(self) -> int:
        return hash((self.model, self.settings))

    def __repr__(self) -> str:
        return f"EngineHandle({self.model!r}, {self.settings!r})"
