"""Small tokenizers built as Gemma's is: spaces become U+2581, runs of line breaks are tokens, bytes spell the rest."""

import string
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from doppler_core.text.tokenizer import Tokenizer

GEMMA3 = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
GEMMA4 = ("<bos>", "<eos>", "<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|tool_call>")
_MERGES = [
    ("s", "t"),
    ("st", "a"),
    ("a", "r"),
    ("t", "h"),
    ("th", "e"),
    ("▁", "a"),
    ("▁", "the"),
    ("\n", "a"),
    ("u", "s"),
]


def write_tokenizer(folder: Path, control: Sequence[str], special: bool = True) -> Path:
    """tokenizer.json with these control tokens; not `special`: as converters write them that do not know better."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "\n"]
    pieces += [letter for letter in string.printable if letter not in string.whitespace]
    pieces += [left + right for left, right in _MERGES]
    model = models.BPE(
        vocab={piece: index for index, piece in enumerate(pieces)},
        merges=_MERGES,
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    backend = Backend(model)
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    backend.add_tokens([AddedToken("\n" * count, normalized=False) for count in range(2, 6)])
    marks = [AddedToken(mark, normalized=False, special=special) for mark in control]
    (backend.add_special_tokens if special else backend.add_tokens)(marks)
    begin = backend.token_to_id("<bos>")
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", begin)]
    )
    path = folder / "tokenizer.json"
    backend.save(str(path))
    return path


def small_tokenizer(folder: Path, control: Sequence[str], special: bool = True) -> Tokenizer:
    """That tokenizer, loaded."""
    return Tokenizer(write_tokenizer(folder, control, special), 1000)


def publishers_ids(path: Path, text: str) -> list[int]:
    """What the tokenizers library makes of a rendered template, control tokens read as such."""
    backend = Backend.from_file(str(path))
    ids: list[int] = backend.encode(text, add_special_tokens=False).ids
    return ids
