"""Short passages of facts with a question on one of them; the answer is the sentence that holds it.

Takes a drawer, gives a request and its answer. Knows nothing of tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draw import ANIMALS, CITIES, COLORS, DAYS, FOODS, JOBS, PLACES, THINGS, Draw


@dataclass(frozen=True)
class Relation:
    """What a fact says of {s}, its subject, and {v}, its value; how both are asked for; what {v} is called."""

    sentence: str
    questions: tuple[str, ...]
    subject: Callable[[Draw], str]
    value: Callable[[Draw], str]
    field: str = ""


@dataclass(frozen=True)
class Fact:
    """A relation with its subject and value."""

    relation: Relation
    subject: str
    value: str

    def put(self, form: str) -> str:
        return form.replace("{s}", self.subject).replace("{v}", self.value)


def _of(words: Sequence[str]) -> Callable[[Draw], str]:
    return lambda draw: draw.one(words)


def _up_to(most: int) -> Callable[[Draw], str]:
    return lambda draw: str(draw.number(2, most))


def _things(draw: Draw) -> str:
    return f"{draw.number(2, 9)} {draw.one(ANIMALS)}s"


_NAME = Draw.name
_RELATIONS = (
    Relation("{s} lives in {v}.", ("Where does {s} live?", "Who lives in {v}?"), _NAME, _of(CITIES), "city"),
    Relation("{s} is a {v}.", ("What is {s}?", "Who is a {v}?"), _NAME, _of(JOBS), "job"),
    Relation("{s} likes {v}.", ("What does {s} like?", "Who likes {v}?"), _NAME, _of(FOODS), "food"),
    Relation("{s} is {v} years old.", ("How old is {s}?", "Who is {v} years old?"), _NAME, _up_to(99), "age"),
    Relation("{s} has {v}.", ("What does {s} have?", "Who has {v}?"), _NAME, _things, "animals"),
    Relation("{s} comes on {v}.", ("When does {s} come?", "Who comes on {v}?"), _NAME, _of(DAYS), "day"),
    Relation(
        "The {s} is in the {v}.", ("Where is the {s}?", "What is in the {v}?"), _of(THINGS), _of(PLACES)
    ),
    Relation("The {s} is {v}.", ("What color is the {s}?", "Which thing is {v}?"), _of(THINGS), _of(COLORS)),
    Relation(
        "The {s} costs {v} dollars.",
        ("How much does the {s} cost?", "What costs {v} dollars?"),
        _of(THINGS),
        _up_to(99),
    ),
)
_SIMPLE = ("{p} {q}", "{p}\n{q}")
_FORMS = (
    *_SIMPLE,
    *_SIMPLE,
    "{p}\n\n{q}",
    "{p}\nQuestion: {q}",
    "Text: {p}\nQuestion: {q}",
    "{q}\n{p}",
    "{q} {p}",
)


def question(draw: Draw) -> tuple[str, str]:
    """One to four facts, and a question on one of them. They often say the same of others."""
    known = _facts(draw, draw.number(1, 2) if draw.level == 0 else draw.number(2, 4))
    fact = draw.one(known)
    passage = " ".join(one.put(one.relation.sentence) for one in known)
    asked = fact.put(draw.one(fact.relation.questions))
    form = draw.one(_SIMPLE if draw.level == 0 else _FORMS)
    return form.replace("{p}", passage).replace("{q}", asked), fact.put(fact.relation.sentence)


def statement(draw: Draw) -> tuple[str, str]:
    """A name and a field, to be made a sentence."""
    relation = draw.one([one for one in _RELATIONS if one.field])
    fact = Fact(relation, relation.subject(draw), relation.value(draw))
    form = draw.one(
        (
            f"Write a sentence: name {{s}}, {relation.field} {{v}}",
            f"Make a sentence. Name: {{s}}. {relation.field.capitalize()}: {{v}}.",
        )
    )
    return fact.put(form), fact.put(relation.sentence)


def _facts(draw: Draw, count: int) -> list[Fact]:
    """Facts of which no two share a relation and its subject, or a relation and its value: one answers a question."""
    common = draw.one(_RELATIONS)
    found: list[Fact] = []
    while len(found) < count:
        relation = common if draw.chance(0.6) else draw.one(_RELATIONS)
        fact = Fact(relation, relation.subject(draw), relation.value(draw))
        same = [one for one in found if one.relation == relation]
        if all(one.subject != fact.subject and one.value != fact.value for one in same):
            found.append(fact)
    return found
