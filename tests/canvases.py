"""Canvases as an engine tells them, without one: words that settle from left to right among random others."""

from collections.abc import Sequence
from random import Random

from doppler_core.engine.request import Canvas

#: Tokens by their ids: words, two control tokens, and what terminals and pages have to be careful with.
WORDS = [
    *(
        "Owls",
        " fly",
        " almost",
        " without",
        " a",
        " sound",
        ".",
        "\n",
        " Their",
        " feathers",
        " are",
        " soft",
    ),
    *("<|turn>", "<turn|>"),
    *(
        " 猫头鹰",
        " \u00e9",
        "e\u0308",
        " \u200b\u202e",
        "\t",
        "\x1b[31m",
        "</script>",
        "<!--",
        "&amp;",
        "x" * 200,
        "\x00",
        "\r",
    ),
]
CONTROL = {12, 13}
END = 13
ANSWER = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 6, END, END, END)


class WordTokenizer:
    """The part of a tokenizer that spells tokens. It has no text for the bytes of half a character, id 99."""

    def piece(self, number: int) -> bytes:
        if number == 99:
            return b"\xf0\x9f"
        return b"" if number in CONTROL or number >= len(WORDS) else WORDS[number].encode()

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return "".join(WORDS[number] for number in ids if number < len(WORDS))

    def control_name(self, number: int) -> str | None:
        return WORDS[number] if number in CONTROL else None


def forming(answer: Sequence[int] = ANSWER, steps: int = 6, most: int = 8, number: int = 0) -> list[Canvas]:
    """A canvas that becomes `answer` in so many steps of `most`: each settles some more of its tokens."""
    random = Random(number)
    found: list[Canvas] = []
    size = len(answer)
    for step in range(1, steps + 1):
        right, drawn = size * step // steps, size * (step + 1) // steps
        noise = [random.randrange(len(WORDS)) for _ in range(size)]
        ids = tuple(answer[at] if at < drawn else noise[at] for at in range(size))
        found.append(
            Canvas(
                number=number,
                step=step,
                steps=most,
                done=step == steps,
                text="".join(WORDS[token] for token in ids if token not in CONTROL),
                ids=ids,
                settled=tuple(at < right for at in range(size)),
                tokens=tuple(ids[at] if at < drawn else noise[-at] for at in range(size)),
                accepted=tuple(at < drawn for at in range(size)),
                entropies=tuple(0.0 if at < right else 0.5 * (at - right) for at in range(size)),
            )
        )
    return found
