"""Gemma's vocabulary out of a GGUF file's metadata: tokens by id, which of them are marks, and the merges.

A file holds tokens, their types and either merges or scores. Gemma's tokenizer is a BPE over characters with U+2581
for the space, and bytes for what no token spells. Where a file has scores, a token's merges are all its splits into two
tokens, in the order of the scores: the order in which the publisher's own tokenizer.json lists them.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from doppler_core.errors import FileFormatError
from doppler_core.weights.gguf_metadata import Metadata, Texts

KEY = "tokenizer.ggml."
SPACE = "\u2581"
UNKNOWN = "<unk>"

_MODELS = ("llama", "gpt2", "gemma4")
_NEEDED = (UNKNOWN, SPACE, *(f"<0x{byte:02X}>" for byte in range(256)))

Merge = tuple[str, str]


class Type(IntEnum):
    """What a token is, as llama.cpp numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


# Marks whatever a file's types say: converters hand those that a chat's parser reads on as ordinary text.
_MARK = re.compile(r"<\|.+>|<.+\|>|<(start|end)_of_(turn|image)>")
# Gemma 3's publisher lets a text spell these; files with scores, which are Gemma 3's, call them control tokens.
_SPELLED = re.compile(r"<unused\d+>|<mask>")


@dataclass(frozen=True)
class Vocabulary:
    """added: ids of the tokens that are found in a text before any merge. special: those of them that are marks, which
    no text from outside may spell. merges: the first to be made first."""

    tokens: list[str]
    added: list[int]
    special: set[int]
    merges: list[Merge]


def vocabulary(metadata: Metadata) -> Vocabulary:
    """The vocabulary of a file, checked. Raises FileFormatError."""
    model = metadata.need(f"{KEY}model", str)
    if model not in _MODELS:
        raise FileFormatError(
            f"{metadata.path}: {KEY}model is {model[:50]!r}; expected one of {', '.join(_MODELS)}"
        )
    tokens = metadata.need(f"{KEY}tokens", Texts).decoded()
    types = _numbers(metadata, "token_type", len(tokens), "iu")
    # In the tokens that stand for themselves, the converter writes spaces out.
    tokens = [
        token.replace(" ", SPACE) if kind == Type.USER_DEFINED else token
        for token, kind in zip(tokens, types, strict=True)
    ]
    known = set(tokens)
    missing = [token for token in _NEEDED if token not in known]
    if len(known) != len(tokens) or missing:
        fault = f"the token {missing[0]!r} is missing" if missing else "a token occurs twice"
        raise FileFormatError(f"{metadata.path}: {KEY}tokens: {fault}: this is no Gemma vocabulary")
    given = metadata.get(f"{KEY}merges", Texts)
    added = [
        index for index, kind in enumerate(types) if kind in (Type.UNKNOWN, Type.CONTROL, Type.USER_DEFINED)
    ]
    special = {
        index
        for index in added
        if _MARK.fullmatch(tokens[index])
        or (
            types[index] != Type.USER_DEFINED and (given is not None or not _SPELLED.fullmatch(tokens[index]))
        )
    }
    if given is not None:
        return Vocabulary(tokens, added, special, list(_given(given)))
    scores = _numbers(metadata, "scores", len(tokens), "f")
    return Vocabulary(tokens, added, special, merges_of(tokens, types, scores))


def merges_of(tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]) -> list[Merge]:
    """The merges that scores mean: the best score first; among equal ones the longest left part, then right part."""
    known = set(tokens)
    ranked = {
        index: 0.0 if types[index] == Type.USER_DEFINED else score
        for index, score in enumerate(scores)
        if types[index] in (Type.NORMAL, Type.USER_DEFINED) and len(tokens[index]) > 1
    }
    merges: list[Merge] = []
    order = sorted(ranked, key=lambda index: -ranked[index])
    for _, group in itertools.groupby(order, lambda index: ranked[index]):
        found = [split for index in group for split in _splits(tokens[index], known)]
        # Sorting is stable, so that equal lengths keep the order of the ids.
        found.sort(key=lambda split: (-len(split[0]), -len(split[1])))
        merges += found
    return merges


def _splits(token: str, known: set[str]) -> Iterator[Merge]:
    for length in range(len(token) - 1, 0, -1):
        if token[:length] in known and token[length:] in known:
            yield token[:length], token[length:]


def _given(merges: Texts) -> Iterator[Merge]:
    for index, merge in enumerate(merges.decoded()):
        left, space, right = merge.partition(" ")
        if not (left and space and right):
            raise FileFormatError(
                f"{merges.where}: merge {index}: expected two tokens, found {merge[:100]!r}"
            )
        yield left, right


def _numbers(metadata: Metadata, name: str, count: int, kinds: str) -> list[Any]:
    values = metadata.need(f"{KEY}{name}", np.ndarray)
    if values.dtype.kind not in kinds or len(values) != count:
        raise FileFormatError(
            f"{metadata.path}: {KEY}{name}: expected a number for each of {count} tokens, found {len(values)} of "
            f"{values.dtype}"
        )
    if not np.isfinite(values).all():
        raise FileFormatError(f"{metadata.path}: {KEY}{name}: a number that is none")
    found: list[Any] = values.tolist()
    return found
