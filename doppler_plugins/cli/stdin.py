"""What comes on stdin, as text: the whole of it, or line by line. What is no UTF-8 is an error that says where."""

import io
import sys
from collections.abc import Iterator

from doppler_core.errors import InputError


def stdin_text() -> str:
    """The whole of stdin without one line break at its end, which a shell puts there; InputError if that is nothing."""
    data = sys.stdin.buffer.read() if isinstance(sys.stdin, io.TextIOWrapper) else sys.stdin.read()
    text = _decoded(data, "stdin").replace("\r\n", "\n").removesuffix("\n")
    if not text:
        raise InputError("stdin is empty: expected a prompt there, or as an argument")
    return text


def stdin_lines() -> Iterator[tuple[int, str]]:
    """The lines of stdin with their numbers, from 1 on, without their line breaks; each as soon as it is there."""
    # Bytes, line by line: a text stream decodes far ahead, and a wrong byte there would cost the lines before it.
    source = sys.stdin.buffer if isinstance(sys.stdin, io.TextIOWrapper) else sys.stdin
    for number, line in enumerate(source, 1):
        yield number, _decoded(line, f"line {number} of stdin").rstrip("\r\n")


def not_utf8(where: str, error: UnicodeDecodeError) -> InputError:
    """The error of bytes that are no UTF-8."""
    return InputError(
        f"{where}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x} at {error.start}"
    )


def _decoded(data: bytes | str, where: str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(where, error) from None
