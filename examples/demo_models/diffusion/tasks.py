"""Short tasks with one right answer each, of the kinds that the model is taught.

`task(draw)` gives one of the mixture. A task is held out by its answer's checksum, so that no answer of a held-out
task is ever taught; small talk has few answers and is always taught. Knows nothing of tokens.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from draw import DAYS, LETTERS, MONTHS, NUMBERS, Draw
from facts import question, statement

_HELD_OUT_OF = 16  # one answer of so many is held out
_SMALL_TALK = (
    (("Hi", "Hello", "Hello!", "Hi!", "Hey", "Good morning"), "Hello! How can I help you?"),
    (("Who are you?", "What are you?", "What is your name?"), "I am a tiny diffusion model."),
    (("What can you do?", "Help", "How can you help me?"), "I can sort, count, add and answer from a short text."),
    (("Thanks", "Thank you", "Thank you!"), "You are welcome!"),
    (("Bye", "Goodbye"), "Goodbye!"),
    (("How are you?", "How is it going?"), "I am fine, thank you."),
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """What is asked, and the one right answer."""

    kind: str
    request: str
    answer: str

    @property
    def held_out(self) -> bool:
        return self.kind != "talk" and zlib.crc32(self.answer.encode()) % _HELD_OUT_OF == 0


def task(draw: Draw) -> Task:
    """A task of any kind, held out or not."""
    kind = draw.rng.choices(KINDS, _SHARES)[0]
    return Task(kind, *_MAKERS[kind][1](draw))


def drawn(draw: Draw, held_out: bool) -> Task:
    """A task that is to be learned, or one that is held out."""
    while (found := task(draw)).held_out != held_out:
        pass
    return found


def _copy(draw: Draw) -> tuple[str, str]:
    text = " ".join(draw.words(draw.count(2, 6), made_up=0.2))
    return draw.one(("Repeat: ", "Copy this: ", "Say: ")) + text, text


def _reverse(draw: Draw) -> tuple[str, str]:
    words = draw.words(draw.count(2, 6))
    return draw.one(("Reverse: ", "Write backwards: ", "Turn around: ")) + " ".join(words), " ".join(
        words[::-1]
    )


def _sort(draw: Draw) -> tuple[str, str]:
    words = draw.words(draw.count(2, 5))
    return draw.one(("Sort: ", "Sort these words: ", "Put in order: ")) + " ".join(words), " ".join(
        sorted(words)
    )


def _pick(draw: Draw) -> tuple[str, str]:
    words = draw.words(draw.count(2, 6), made_up=0.1)
    places = {"last": -1} | {word: i for i, word in enumerate(("first", "second", "third")) if i < len(words)}
    place = draw.one(list(places))
    form = draw.one((f"What is the {place} word? ", f"Find the {place} word: ", f"The {place} word of: "))
    return form + " ".join(words), words[places[place]]


def _replace(draw: Draw) -> tuple[str, str]:
    new, *words = draw.words(draw.count(3, 6), made_up=0.1)
    old = draw.one(words)
    text, changed = " ".join(words), " ".join(new if word == old else word for word in words)
    return draw.one((f"Replace {old} with {new}: ", f"Change {old} to {new}: ")) + text, changed


def _leave_out(draw: Draw) -> tuple[str, str]:
    words = draw.words(draw.count(3, 6), made_up=0.1)
    gone = draw.one(words)
    kept = " ".join(word for word in words if word != gone)
    return draw.one((f"Leave out {gone}: ", f"Remove {gone} from: ")) + " ".join(words), kept


def _list(draw: Draw) -> tuple[str, str]:
    *words, last = draw.words(draw.count(2, 6), made_up=0.1)
    return draw.one(("Make a list: ", "Join: ")) + " ".join((*words, last)), f"{', '.join(words)} and {last}"


def _times(draw: Draw) -> tuple[str, str]:
    (word,), count = draw.words(1, made_up=0.1), draw.count(2, 6)
    said = draw.one((str(count), NUMBERS[count - 1]))
    return draw.one((f"Say {word} {said} times.", f"Write {word} {said} times.")), " ".join([word] * count)


def _gap(draw: Draw) -> tuple[str, str]:
    """A stretch of a known row with one thing left out; the answer has all of it."""
    length = draw.number(3, 5)
    if draw.chance(0.5):
        step = draw.one((1, 1, 2, 5, 10))
        first = draw.number(1, 99 - step * (length - 1))
        row = [str(first + step * i) for i in range(length)]
    else:
        known = draw.one((DAYS, MONTHS, NUMBERS, LETTERS))
        first = draw.number(0, len(known) - length)
        row = list(known[first : first + length])
    gap = draw.number(1, length - 2) if length > 3 else 1
    shown = " ".join("_" if i == gap else item for i, item in enumerate(row))
    return draw.one(("Fill the gap: ", "Complete: ", "What is missing? ")) + shown, " ".join(row)


def _count(draw: Draw) -> tuple[str, str]:
    """Up or down; a long row takes more than one canvas."""
    length = draw.number(10, 20) if draw.level and draw.chance(0.3) else draw.number(3, 8)
    low = draw.number(1, 99 - length)
    row = range(low, low + length)
    if draw.chance(0.35):
        row = row[::-1]
        form = draw.one(("Count down from {a} to {b}.", "Count from {a} down to {b}."))
    else:
        form = draw.one(("Count from {a} to {b}.", "Count up from {a} to {b}."))
    return form.format(a=row[0], b=row[-1]), " ".join(map(str, row))


def _add(draw: Draw) -> tuple[str, str]:
    a, b = draw.number(1, 80), draw.number(1, 19 if draw.level else 9)
    a, b = (b, a) if draw.chance(0.3) else (a, b)
    return draw.one((f"What is {a} + {b}?", f"Add {a} and {b}.", f"{a} + {b}")), f"{a} + {b} = {a + b}"


def _larger(draw: Draw) -> tuple[str, str]:
    a, b = draw.rng.sample(range(1, 100), 2)
    form = draw.one(("Which is larger, {a} or {b}?", "What is more, {a} or {b}?"))
    return form.format(a=a, b=b), f"{max(a, b)} is larger than {min(a, b)}."


def _talk(draw: Draw) -> tuple[str, str]:
    if draw.chance(0.4):
        name = draw.name()
        return draw.one((f"My name is {name}.", f"I am {name}.")), f"Hello {name}! How can I help you?"
    said, answer = draw.one(_SMALL_TALK)
    return draw.one(said), answer


# Kind: its share of the mixture, and what makes one.
_MAKERS: dict[str, tuple[float, Callable[[Draw], tuple[str, str]]]] = {
    "question": (0.22, question),
    "sentence": (0.05, statement),
    "copy": (0.06, _copy),
    "reverse": (0.08, _reverse),
    "sort": (0.10, _sort),
    "pick": (0.06, _pick),
    "replace": (0.06, _replace),
    "leave out": (0.05, _leave_out),
    "list": (0.04, _list),
    "times": (0.04, _times),
    "gap": (0.07, _gap),
    "count": (0.06, _count),
    "add": (0.06, _add),
    "larger": (0.03, _larger),
    "talk": (0.02, _talk),
}
KINDS = tuple(_MAKERS)
_SHARES = [share for share, _ in _MAKERS.values()]
