"""Tokenizer files out of a GGUF file's metadata: those that a publisher's folder has, made once and kept in a cache."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from doppler_core.errors import FileFormatError
from doppler_core.text.gguf_vocabulary import KEY, SPACE, UNKNOWN, Merge, Vocabulary, vocabulary
from doppler_core.weights.gguf_metadata import Metadata
from doppler_core.weights.staging import staged, writing

# Part of the cache's names: a change of what is written here makes new files.
_VERSION = 3
_MADE_OF = ("tokenizer.", "general.architecture", "general.sampling.")
_FILE, _CONFIG, _GENERATION, _TEMPLATE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
)
# Where a setting of the metadata stands in tokenizer_config.json.
_MARKS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_SAMPLING = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}
# What ends a turn of a Gemma; not every file names them.
_STOPS = ("<end_of_turn>", "<turn|>", "<|tool_response>")


def tokenizer_files(metadata: Metadata, cache: Path) -> dict[str, Path]:
    """The tokenizer files of a GGUF file, by name, made in a folder of `cache` unless they are there.

    The folder's name is a hash of the metadata they are made of. FileFormatError: the metadata are no Gemma tokenizer;
    SettingsError, DiskSpaceError: the cache can't be written.
    """
    folder = cache / "tokenizers" / f"{metadata.digest(*_MADE_OF)[:32]}-{_VERSION}"
    if _lacks(folder):
        contents = _contents(metadata)
        with writing(folder, "the tokenizer"), staged(folder, lambda: _lacks(folder), lambda: None) as place:
            if place is not None:
                for name, text in contents.items():
                    (place / name).write_text(text, encoding="utf-8", newline="\n")
    return {path.name: path for path in sorted(folder.iterdir())}


def _lacks(folder: Path) -> bool:
    return not (folder / _FILE).is_file()


def _contents(metadata: Metadata) -> dict[str, str]:
    """The texts of the files."""
    vocab = vocabulary(metadata)
    ids = {token: index for index, token in enumerate(vocab.tokens)}
    marks = {"unk": UNKNOWN}
    for name, key in _MARKS.items():
        if (mark := _token(metadata, vocab, key)) is not None:
            marks[name] = mark
    before, after = (marks.get(name) if on else None for name, on in _adds(metadata).items())
    config = {"add_bos_token": before is not None, "add_eos_token": after is not None}
    files = {
        _FILE: json.dumps(_tokenizer(vocab, ids, before, after), ensure_ascii=False, separators=(",", ":")),
        _CONFIG: json.dumps(config | {f"{name}_token": mark for name, mark in marks.items()}, indent=1),
        _GENERATION: json.dumps(_generation(metadata, vocab, ids, marks), indent=1),
    }
    template = metadata.get("tokenizer.chat_template", str)
    return files if template is None else files | {_TEMPLATE: template}


def _adds(metadata: Metadata) -> dict[str, bool]:
    """Whether a begin and an end token surround a text. What the file leaves open is as every Gemma has it."""
    defaults = {"bos": True, "eos": metadata.get("general.architecture", str) == "gemma-embedding"}
    said = {name: metadata.get(f"{KEY}add_{name}_token", bool) for name in defaults}
    return {name: default if said[name] is None else bool(said[name]) for name, default in defaults.items()}


def _token(metadata: Metadata, vocab: Vocabulary, name: str) -> str | None:
    """The token whose id a key gives, None without the key."""
    key = f"{KEY}{name}_token_id"
    index = metadata.get(key, int)
    if index is not None and not 0 <= index < len(vocab.tokens):
        raise FileFormatError(f"{metadata.path}: {key} is {index}, and there are {len(vocab.tokens)} tokens")
    return None if index is None else vocab.tokens[index]


def _generation(
    metadata: Metadata, vocab: Vocabulary, ids: Mapping[str, int], marks: Mapping[str, str]
) -> dict[str, object]:
    """generation_config.json: what ends a text, and how the publisher samples."""
    named = (marks.get("eos"), *(_token(metadata, vocab, name) for name in ("eot", "eom")))
    ends = dict.fromkeys((*(end for end in named if end), *(end for end in _STOPS if end in ids)))
    found: dict[str, object] = {
        f"{name}_token_id": ids[marks[name]] for name in ("bos", "pad") if name in marks
    }
    found["eos_token_id"] = [ids[end] for end in ends]
    for name, theirs in _SAMPLING.items():
        value = metadata.values.get(f"general.sampling.{name}")
        if type(value) in (int, float):
            found |= {"do_sample": True, theirs: value}
    return found


def _tokenizer(vocab: Vocabulary, ids: Mapping[str, int], before: str | None, after: str | None) -> object:
    """The tokenizers library's JSON."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": vocab.tokens[index],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": index in vocab.special,
            }
            for index in vocab.added
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": None,
        "post_processor": _around(ids, before, after),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": UNKNOWN,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": ids,
            "merges": _merges(vocab.merges),
        },
    }


def _merges(merges: Sequence[Merge]) -> Sequence[str | Merge]:
    """Each as "left right", which is read in two thirds of the time, unless one would be read as something else.

    The tokenizers library parts such a line at each space, and takes one that begins with "#version" for a comment.
    """
    lines = [" ".join(merge) for merge in merges]
    clear = all(line.count(" ") == 1 and not line.startswith("#version") for line in lines)
    return lines if clear else merges


def _around(ids: Mapping[str, int], before: str | None, after: str | None) -> object:
    """The tokens around a text."""

    def sequence(name: str, kind: int) -> list[object]:
        marks = [
            {"SpecialToken": {"id": mark, "type_id": kind}} if mark else None for mark in (before, after)
        ]
        return [part for part in (marks[0], {"Sequence": {"id": name, "type_id": kind}}, marks[1]) if part]

    return {
        "type": "TemplateProcessing",
        "single": sequence("A", 0),
        "pair": [*sequence("A", 0), *sequence("B", 1)],
        "special_tokens": {
            mark: {"id": mark, "ids": [ids[mark]], "tokens": [mark]} for mark in (before, after) if mark
        },
    }
