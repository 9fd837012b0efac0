"""Plugins and adapters for doppler_core: LangChain, LlamaIndex, the command line, and what third parties add.

Importing this package imports no framework, no GPU library and no NumPy: each public name is fetched when used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doppler_core.engine.request import EmbedRequest, GenerateRequest
    from doppler_core.settings import EngineSettings
    from doppler_plugins.handle import EngineHandle
    from doppler_plugins.hookspecs import hookimpl
    from doppler_plugins.opening import open_engine
    from doppler_plugins.registry import plugins

    __version__: str

__all__ = [
    "EmbedRequest",
    "EngineHandle",
    "EngineSettings",
    "GenerateRequest",
    "__version__",
    "hookimpl",
    "open_engine",
    "plugins",
]

_HOMES = {
    "EmbedRequest": "doppler_core.engine.request",
    "EngineHandle": "doppler_plugins.handle",
    "EngineSettings": "doppler_core.settings",
    "GenerateRequest": "doppler_core.engine.request",
    "hookimpl": "doppler_plugins.hookspecs",
    "open_engine": "doppler_plugins.opening",
    "plugins": "doppler_plugins.registry",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from doppler_plugins.discovery import own_version

        return own_version()
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
