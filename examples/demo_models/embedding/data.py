"""What the demo model learns from: passages, their questions, and random changes to both.

Takes `passages.json` and `words.txt` beside this file and a seeded generator, gives (query, document) texts with
EmbeddingGemma's prompts. Knows nothing of tokens or tensors.
"""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
QUERY_PROMPT = "task: search result | query: {text}"
DOCUMENT_PROMPT = "title: {title} | text: {text}"
OPENERS = ("Please tell me: ", "I would like to know: ", "Quick question: ", "Do you know: ", "Hello, ")


@dataclass(frozen=True)
class Passage:
    id: str
    subject: str
    title: str
    text: str
    questions: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        return re.split(r"(?<=[.!?]) ", self.text)


def load_passages(path: Path = HERE / "passages.json") -> list[Passage]:
    return [Passage(**{**row, "questions": tuple(row["questions"])}) for row in json.loads(path.read_text())]


def load_synonyms(path: Path = HERE / "words.txt") -> dict[str, list[str]]:
    """Each word or phrase of `words.txt` with the others of its groups."""
    others: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            group = [word.strip() for word in line.split(",")]
            for word in group:
                others.setdefault(word, []).extend(other for other in group if other != word)
    return others


def as_query(text: str) -> str:
    return QUERY_PROMPT.format(text=text)


def as_document(text: str, title: str = "none") -> str:
    return DOCUMENT_PROMPT.format(title=title, text=text)


class Augmenter:
    """Draws queries and documents; the same seed draws the same texts."""

    def __init__(self, passages: list[Passage], rng: random.Random) -> None:
        self.passages, self.rng, self.synonyms = passages, rng, load_synonyms()
        longest_first = sorted(self.synonyms, key=len, reverse=True)
        self.known = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def reword(self, text: str, rate: float) -> str:
        """Replace known words by one of like meaning, each with probability `rate`."""

        def other(match: re.Match[str]) -> str:
            word = match[0]
            return self.rng.choice(self.synonyms[word.lower()]) if self.chance(rate) else word

        # Look-ups are by lower case; "July" and the like stand in the table with a capital.
        return self.known.sub(lambda m: other(m) if m[0].lower() in self.synonyms else m[0], text)

    def thin(self, text: str, rate: float) -> str:
        """Drop words, each with probability `rate`; at least one word stays."""
        words = text.split(" ")
        return " ".join([w for w in words if not self.chance(rate)] or [self.rng.choice(words)])

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def dressed(self, text: str) -> str:
        """Vary what carries no meaning: capitals, the question mark, a polite opener."""
        if self.chance(0.3):
            text = text.rstrip("?.")
        if self.chance(0.3):
            return text.lower()
        if self.chance(0.1):
            return self.rng.choice(OPENERS) + text
        return text[:1].upper() + text[1:]

    def query(self, passage: Passage) -> str:
        """A question of the passage, sometimes two mixed, its title, or words out of its text."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.65:
            text = rng.choice(passage.questions)
        elif kind < 0.8:
            # Half of one question and half of another: new wording about the same thing.
            first, second = (rng.choice(passage.questions).rstrip("?").split(" ") for _ in range(2))
            text = " ".join(first[: len(first) // 2 + 1] + second[len(second) // 2 :])
        elif kind < 0.86:
            text = passage.title
        else:
            words = rng.choice(passage.sentences).split(" ")
            start, count = rng.randrange(max(1, len(words) - 6)), rng.randint(5, 12)
            text = " ".join(words[start : start + count])
        text = self.thin(self.reword(text, 0.25), rng.uniform(0.0, 0.3))
        return as_query(self.dressed(text))

    def document(self, passage: Passage) -> str:
        """The passage, with its title in half of the cases, its sentences shuffled or one of them left out."""
        sentences = passage.sentences
        if self.chance(0.3):
            self.rng.shuffle(sentences)
        if len(sentences) > 1 and self.chance(0.2):
            sentences.pop(self.rng.randrange(len(sentences)))
        text = self.thin(self.reword(" ".join(sentences), 0.08), self.rng.uniform(0.0, 0.15))
        return as_document(text, passage.title if self.chance(0.5) else "none")

    def mixture(self) -> tuple[str, str]:
        """A query and a made-up document of spans from three passages: matched by their words alone.

        Documents that exist only once keep the model from learning the passages by heart.
        """
        words: list[str] = []
        for passage in self.rng.sample(self.passages, 3):
            source = self.rng.choice((passage.text, " ".join(passage.questions))).split(" ")
            start = self.rng.randrange(max(1, len(source) - 10))
            words += source[start : start + 10]
        asked = [word for word in words if len(word) > 3 or self.chance(0.3)]
        asked = self.rng.sample(asked, min(len(asked), self.rng.randint(4, 9)))
        query = self.reword(" ".join(asked).replace("?", ""), 0.2)
        return as_query(self.dressed(query)), as_document(" ".join(words))
