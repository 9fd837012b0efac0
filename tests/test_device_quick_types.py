"""wgpu's C types, read the short way: the very types that cffi gives, and nothing lost where cffi is another one."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import cffi
import pytest
from gpu_ops import SOFTWARE

from doppler_core.device.quick_types import quicken

HEADER = """
typedef struct Inner { uint8_t small; double large; } Inner;
typedef struct Outer { Inner inner[3]; struct Outer const *next; void (*call)(Inner, int); } Outer;
typedef struct HandleImpl* Handle;
typedef enum Kind { Kind_A = 1, Kind_B = 7 } Kind;
typedef uint64_t Flags;
typedef void (*Callback)(Handle, Kind, void *);
"""
NAMED = (
    *(
        f"{name}{form}"
        for name in ("Inner", "Outer", "Handle", "Kind", "Flags")
        for form in ("", " *", "[]", " [4]")
    ),
    *("Outer const *", "Outer * const *", "Callback", "Callback[2]", "Inner (*)[2]"),
    *("void *", "char []", "uint8_t[]", "uintptr_t", "unsigned long long", "size_t *", "bool"),
    *("struct Inner *", "enum Kind", "struct Unheard *", "void(*)(Inner, Handle const *, Kind, void *)"),
)


def interface() -> Any:
    made = cffi.FFI()
    made.cdef(HEADER)
    return made


@pytest.mark.parametrize("name", NAMED)
def test_a_type_is_the_one_that_cffi_gives(name: str) -> None:
    ffi, other = interface(), interface()
    assert quicken(ffi)
    short = ffi.typeof(name)
    # The same interface's long way gives the very same type, whose size an interface of its own agrees on.
    with ffi._lock:
        model = type(ffi._parser).parse_type(ffi._parser, name)
        assert ffi._get_cached_btype(model) is short
    assert (short.kind, short.cname) == (other.typeof(name).kind, other.typeof(name).cname)
    if "[]" not in name:
        assert (ffi.sizeof(name), ffi.alignof(name)) == (other.sizeof(name), other.alignof(name))


@pytest.mark.parametrize("name", ["Unknown *", "Inner *; int", "Inner["])
def test_what_is_no_type_is_refused_in_the_same_words(name: str) -> None:
    ffi, other = interface(), interface()
    assert quicken(ffi)
    found = []
    for each in (ffi, other):
        with pytest.raises(cffi.CDefError) as error:
            each.typeof(name)
        found.append(str(error.value))
    assert found[0] == found[1]


def test_each_of_wgpus_types_is_the_one_that_cffi_gives() -> None:
    from wgpu.backends.wgpu_native import ffi

    assert quicken(ffi)
    names = sorted(
        key.removeprefix("typedef ") for key in ffi._parser._declarations if key.startswith("typedef WGPU")
    )
    assert len(names) > 400
    # One declaration of them all, so that the long way is gone once.
    listed = f"void(*)({', '.join(f'{name} *, {name} (*)[]' for name in names)})"
    with ffi._lock:
        given = ffi._get_cached_btype(type(ffi._parser).parse_type(ffi._parser, listed)).args
    expected = [
        kind for pointer, array in zip(given[::2], given[1::2], strict=True) for kind in (pointer, array.item)
    ]
    assert [ffi.typeof(f"{name}{form}") for name in names for form in (" *", "[]")] == expected


def test_opening_a_model_has_the_whole_header_read_for_no_more_than_the_library_itself_wants() -> None:
    script = f"""
import json, cffi.cparser
read, parse = [], cffi.cparser.Parser._parse
def counted(parser, source):
    read.append(len(parser._declarations))
    return parse(parser, source)
cffi.cparser.Parser._parse = counted
import wgpu.backends.auto
loading = len(read)
from doppler_plugins import EngineSettings, open_engine
with open_engine("demo-embedding", EngineSettings(device={SOFTWARE!r})) as engine:
    pass
print(json.dumps(read[loading:]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert len(read) > 30
    # The longest is a callback's signature.
    assert max(read) <= 4


def test_a_cffi_that_is_made_otherwise_is_left_as_it_is() -> None:
    for changed in (
        None,
        SimpleNamespace(),
        SimpleNamespace(_parser=SimpleNamespace(_declarations={})),
        SimpleNamespace(_parser=SimpleNamespace(parse_type=str)),
        SimpleNamespace(_parser=SimpleNamespace(parse_type=str, _declarations=[])),
    ):
        before = repr(changed)
        assert not quicken(changed)
        assert repr(changed) == before


def test_a_parser_that_cant_be_made_anew_goes_the_long_way() -> None:
    class Parser:
        def __init__(self, needed: object) -> None:
            self._declarations: dict[str, object] = {}

        def parse_type(self, name: str) -> str:
            return f"the type {name}"

    ffi = SimpleNamespace(_parser=Parser(None))
    assert quicken(ffi)
    assert ffi._parser.parse_type("Inner *") == "the type Inner *"


def test_a_second_time_changes_nothing() -> None:
    ffi = interface()
    assert quicken(ffi)
    first = ffi._parser.parse_type
    assert quicken(ffi)
    assert ffi._parser.parse_type is first
