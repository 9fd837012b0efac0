"""The demo model's tokenizer: BPE with byte fallback, in Gemma's manner.

Takes texts, gives a `tokenizers.Tokenizer` that puts <bos> and <eos> around a text. `Sampler` splits words
into smaller pieces at random, which `tokenizers` can do too, but not from a seed. Knows nothing of the model.
"""

import json
import random
from collections.abc import Iterable
from itertools import pairwise

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
SPACE = "\u2581"
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
SKIP = 0.2  # share of the merges left out in such a word
ALPHABET = (*map(chr, range(33, 127)), SPACE, "\n")


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn `size` tokens in all: four special ones, 256 bytes, then characters and merges."""
    learned = Tokenizer(models.BPE())
    # Merges are learned inside a word only; a space belongs to the word after it. The finished tokenizer needs
    # no such rule, because no learned merge crosses a space.
    learned.pre_tokenizer = pre_tokenizers.Split(Regex(f"{SPACE}?[A-Za-z]+|{SPACE}?[0-9]|."), "isolated")
    free = size - len(SPECIAL) - len(BYTES)
    trainer = BpeTrainer(
        vocab_size=free, initial_alphabet=list(ALPHABET), special_tokens=[], show_progress=False
    )
    learned.train_from_iterator((SPACE + text.replace(" ", SPACE) for text in texts), trainer)
    state = json.loads(learned.to_str())["model"]
    pieces = sorted(state["vocab"], key=state["vocab"].__getitem__)
    if len(pieces) != free:
        raise ValueError(f"expected text for {free} pieces, found {len(pieces)}: lower the vocabulary size")
    vocabulary = {token: i for i, token in enumerate((*SPECIAL, *BYTES, *pieces))}
    return finished(vocabulary, [(left, right) for left, right in state["merges"]])


def finished(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """Gemma's pipeline around the given pieces: normalizer, byte fallback, decoder, <bos> and <eos>."""
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>",
        pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1",
        special_tokens=[("<bos>", SPECIAL.index("<bos>")), ("<eos>", SPECIAL.index("<eos>"))],
    )
    return tokenizer


class Sampler:
    """Encodes like the tokenizer, but in some words leaves out merges at random (BPE dropout).

    A word seen in several splits shares its pieces with related words: "bees" also as "bee" + "s".
    """

    def __init__(self, tokenizer: Tokenizer, rng: random.Random) -> None:
        state = json.loads(tokenizer.to_str())["model"]
        self.vocabulary: dict[str, int] = state["vocab"]
        self.rank = {tuple(pair): i for i, pair in enumerate(state["merges"])}
        self.rng = rng

    def word(self, word: str, skip: float) -> list[int]:
        pieces = list(word)
        while True:
            pairs = [
                (self.rank[pair], i)
                for i, pair in enumerate(pairwise(pieces))
                if pair in self.rank and self.rng.random() >= skip
            ]
            if not pairs:
                return [self.vocabulary[piece] for piece in pieces]
            at = min(pairs)[1]
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]

    def encode(self, text: str, rough: float = 0.0) -> list[int]:
        """Ids of `text` with <bos> and <eos>, each word split roughly with probability `rough`.

        The text has ASCII characters only.
        """
        ids = [SPECIAL.index("<bos>")]
        for i, word in enumerate(text.split(" ")):
            skip = SKIP if self.rng.random() < rough else 0.0
            ids += self.word(SPACE * (i > 0) + word, skip)
        return [*ids, SPECIAL.index("<eos>")]
