"""Gives tests the scripts that made a bundled model, without leaving their names (`tools`, `check`) importable."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1] / "examples/demo_models"


def demo_scripts(folder: str, *names: str) -> list[ModuleType]:
    """The modules of examples/demo_models/<folder>; they import each other by their bare names."""
    path = str(ROOT / folder)
    sys.path.insert(0, path)
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(path)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(path):
                del sys.modules[name]
