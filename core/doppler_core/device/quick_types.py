"""Makes the first use of each of wgpu's C types cheap. It takes a cffi interface and does not know what its types are for.

To read the name of a type, cffi has the C parser read a typedef of every name that the header declares as well. In
wgpu's there are 432, so that the fifty types it meets until a model is open take most of a second. What a name means
depends on nothing but the declarations of the words in it; here the parser is given these. cffi offers no way to say so:
one method of the interface's parser is replaced. Where cffi's insides are other ones than expected, nothing is, and
what the short way does not read goes the long one, with its errors.
"""

import importlib
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

_WORD = re.compile(r"[A-Za-z_]\w*")
# A type that is declared where it is named has to reach the parser that keeps the declarations.
_DECLARING = {"struct", "union", "enum"}


def quicken_wgpu() -> None:
    """Load wgpu's native library, and let it read its types the short way."""
    importlib.import_module("wgpu.backends.auto")
    quicken(getattr(sys.modules.get("wgpu.backends.wgpu_native"), "ffi", None))


def quicken(ffi: Any) -> bool:
    """Let a cffi.FFI read names of types the short way; whether it does now. Types, and their identity, stay the same."""
    parser: Any = getattr(ffi, "_parser", None)
    long_way = getattr(parser, "parse_type", None)
    if not callable(long_way) or not isinstance(getattr(parser, "_declarations", None), dict):
        return False
    if "parse_type" not in vars(parser):
        parser.parse_type = partial(_parse_type, parser, long_way)
    return True


def _parse_type(parser: Any, long_way: Callable[[str], Any], name: str) -> Any:
    """In place of the parser's own, which cffi calls with a lock held: its model of a type."""
    words = set(_WORD.findall(name))
    if not words & _DECLARING:
        with suppress(Exception):  # whatever another cffi makes of it
            return _with_declarations_of(words, parser).parse_type(name)
    return long_way(name)


def _with_declarations_of(words: set[str], parser: Any) -> Any:
    """A parser like this one that knows these typedefs only."""
    known, made = parser._declarations, type(parser)()
    made._declarations = {key: known[key] for key in (f"typedef {word}" for word in words) if key in known}
    return made
