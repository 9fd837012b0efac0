"""The demo model's tokenizer: BPE with byte fallback and Gemma 4's control tokens at Gemma 4's ids.

Takes conversations, gives a `tokenizers.Tokenizer`. Merges are learned inside words, and digits and spaces stand alone,
so that a word has the same tokens wherever it is: what the model has to copy looks alike in both places. Only what the
wire format repeats in every declaration is one token each. Knows nothing of the model.
"""

import json
import re
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

SIZE = 1280
CONTROL = {
    0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>",
    49: "<tool_call|>", 50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>",
    100: "<|channel>", 101: "<channel|>", 105: "<|turn>", 106: "<turn|>",
}  # fmt: skip
SPACE = "\u2581"
_FIRST_BYTE = 238  # as in Gemma's own vocabulary
_BYTES = {_FIRST_BYTE + byte: f"<0x{byte:02X}>" for byte in range(256)}
_ALPHABET = [*map(chr, range(33, 127)), SPACE, "\n"]
_WHOLE = (
    "declaration:", "{description:", ",parameters:{properties:{", ":{description:", ",type:", ":{type:", "},required:[",
    "}},required:[", "}},", "],type:", "}},type:", "call:", "response:", "response:", "{value:", "}}", "},", "system\n", "user\n",
    "model\n", "thought\n",
)  # fmt: skip


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn what is left of `SIZE` ids from texts in which control tokens are written out."""
    learned = Tokenizer(models.BPE())
    whole = "|".join(re.escape(part) for part in sorted(_WHOLE, key=len, reverse=True))
    learned.pre_tokenizer = pre_tokenizers.Split(Regex(rf"{whole}|[A-Za-z]+|\n|."), "isolated")
    free = [number for number in range(SIZE) if number not in CONTROL and number not in _BYTES]
    trainer = BpeTrainer(
        vocab_size=len(free), initial_alphabet=_ALPHABET, special_tokens=[], show_progress=False
    )
    control = re.compile("|".join(map(re.escape, CONTROL.values())))
    parts = (part.replace(" ", SPACE) for text in texts for part in control.split(text) if part)
    learned.train_from_iterator(parts, trainer)
    state = json.loads(learned.to_str())["model"]
    pieces = sorted(state["vocab"], key=state["vocab"].__getitem__)
    if len(pieces) != len(free):
        raise ValueError(f"expected text for {len(free)} pieces, found {len(pieces)}: give more of it")
    numbered = CONTROL | _BYTES | dict(zip(free, pieces, strict=True))
    vocabulary = {piece: number for number, piece in numbered.items()}
    return finished(vocabulary, [(left, right) for left, right in state["merges"]])


def finished(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """Gemma's pipeline around the given pieces: normalizer, byte fallback, decoder. It adds no <bos>: the format does."""
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in CONTROL.values()]
    )
    return tokenizer
