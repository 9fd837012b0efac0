"""What the benchmarks read: prose out of the demo's own passages, and the documents every embedder embeds."""

import json
from pathlib import Path

PASSAGES = Path(__file__).parents[1] / "examples" / "demo_models" / "embedding" / "passages.json"
COUNT, SHORTEST, LONGEST = 64, 12, 400
WORDS_PER_TOKEN = 0.78  # of Gemma's tokenizer on this prose, prompt and end tokens left out


def prose() -> str:
    """All passages, 5,396 words."""
    return " ".join(passage["text"] for passage in json.loads(PASSAGES.read_text("utf-8")))


def documents() -> list[str]:
    """64 texts of 12 to 400 tokens, log-spaced; shuffled the same way every time, so that no contestant is handed them
    sorted."""
    words = prose().split()
    texts = []
    for number in range(COUNT):
        tokens = SHORTEST * (LONGEST / SHORTEST) ** (number / (COUNT - 1))
        count = max(1, round((tokens - 8) * WORDS_PER_TOKEN))  # the document prompt and the ends are 8 tokens
        start = (number * 97) % (len(words) - count)
        texts.append(" ".join(words[start : start + count]))
    return [texts[(number * 29) % COUNT] for number in range(COUNT)]
