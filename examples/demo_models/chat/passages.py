"""Short passages of made-up facts with questions on them, in the wordings that people and frameworks send.

Takes `Values`, gives a system text, a user text and the answer. Knows nothing of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from values import Value, Values, listed, said

_ATTRIBUTES = listed(
    "color age city job price size code owner phone floor password name friend number team rank year speed weight address "
    "capital language height boss email birthday car dog"
)


@dataclass(frozen=True)
class Fact:
    """A sentence, its questions, the answer. No two facts of a passage share their `key`."""

    key: tuple[str, str]
    text: str
    questions: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Reading:
    """A conversation's texts that ask a passage something; `asked_first`: the question stands before it."""

    system: str
    user: str
    answer: str
    asked_first: bool


# Sentence, questions and what fills {v}; {e} is whom it is about, {o} a thing counted.
_RELATIONS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        "live",
        ("{e} lives in {v}", "{e} lives in {v}"),
        ("Where does {e} live?", "In which city does {e} live?"),
        "name",
    ),
    ("be in", ("{e} is in {v}",), ("Where is {e}?",), "name"),
    ("like", ("{e} likes {v}",), ("What does {e} like?",), "word"),
    ("have", ("{e} has {v} {o}",), ("How many {o} does {e} have?",), "integer"),
    ("work", ("{e} works in {v}", "{e} works at {v}"), ("Where does {e} work?",), "name"),
    ("be", ("{e} is a {v}",), ("What is {e}?",), "word"),
    ("born", ("{e} was born in {v}",), ("When was {e} born?",), "integer"),
    (
        "cost",
        ("{e} costs {v} dollars",),
        ("How much does {e} cost?", "How many dollars does {e} cost?"),
        "integer",
    ),
    ("old", ("{e} is {v} years old",), ("How old is {e}?",), "integer"),
    ("open", ("{e} opens at {v}",), ("When does {e} open?", "What time does {e} open?"), "moment"),
    ("own", ("{e} owns the {v}",), ("What does {e} own?",), "word"),
    ("eat", ("{e} eats {v}",), ("What does {e} eat?",), "word"),
    ("made", ("{e} is made of {v}",), ("What is {e} made of?",), "word"),
    ("founded", ("{e} was founded by {v}",), ("Who founded {e}?",), "name"),
)

_RULE = "---------------------"
# What frameworks send by themselves: LlamaIndex's two texts, LangChain's usual one.
_EXPERT = """You are an expert Q&A system that is trusted around the world.
Always answer the query using the provided context information, and not prior knowledge.
Some rules to follow:
1. Never directly reference the given context in your answer.
2. Avoid statements like 'Based on the context, ...' or 'The context information ...' or anything along those lines."""
_BELOW = f"""Context information is below.
{_RULE}
{{p}}
{_RULE}
Given the context information and not prior knowledge, answer the query.
Query: {{q}}
Answer:"""
_CONCISE = (
    "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the "
    "question. If you don't know the answer, just say that you don't know. Use three sentences maximum and keep the "
    "answer concise.\nQuestion: {q} \nContext: {p} \nAnswer:"
)
_AT_THE_END = "Use the following pieces of context to answer the question at the end.\n\n{p}\n\nQuestion: {q}\nHelpful Answer:"
# System text, user text, weight, with the question last, then first: {p} the passage, {q} the question.
_ASKED_LAST = (
    ("", "{p}\n{q}", 3.0),
    ("", "{p} {q}", 3.0),
    ("", "Passage: {p}\nQuestion: {q}", 2.0),
    ("", "Read this: {p}\n\n{q}", 1.0),
    ("", "Context: {p}\n\nQuestion: {q}", 2.0),
    ("", "Context:\n{p}\n\nQuestion: {q}\nAnswer:", 1.5),
    ("", "Answer the question based only on the following context:\n{p}\n\nQuestion: {q}", 1.5),
    ("", _AT_THE_END, 0.4),
    ("", _BELOW, 2.5),
    ("Answer from the context.", "Context: {p}\nQuestion: {q}", 0.7),
    ("Answer the question from this context:\n{p}", "{q}", 1.0),
    ("You are a helpful assistant. Use the context to answer.\n\nContext: {p}", "{q}", 0.7),
    (_EXPERT, _BELOW, 1.5),
)
_ASKED_FIRST = (
    ("", "{q}\n{p}", 4.0),
    ("", "{q} {p}", 1.5),
    ("", "{q}\n\n{p}", 2.0),
    ("", "Question: {q}\nContext: {p}\nAnswer:", 2.0),
    ("", "Question: {q}\n\nContext: {p}", 1.5),
    ("", _CONCISE, 0.8),
)
_JOINS = (" ", " ", " ", "\n", "\n\n", "\n- ")


def facts(values: Values, count: int) -> list[Fact]:
    """Up to so many facts about one to three persons or things; they often share an attribute."""
    rng = values.rng
    who = [values.name() if values.chance(0.7) else f"the {values.word()}" for _ in range(rng.randint(1, 3))]
    shared = values.chance(0.5) and len(who) > 1
    attribute = rng.choice(_ATTRIBUTES)
    relation = rng.choice(_RELATIONS)
    found: dict[tuple[str, str], Fact] = {}
    for _ in range(count):
        entity = rng.choice(who)
        if shared and values.chance(0.6):
            fact = (
                _attribute(values, entity, attribute)
                if values.chance(0.6)
                else _related(values, entity, relation)
            )
        elif values.chance(0.55):
            other = rng.choice(_ATTRIBUTES) if values.chance(0.65) else values.word(0.1)
            fact = _attribute(values, entity, other)
        else:
            fact = _related(values, entity, rng.choice(_RELATIONS))
        found.setdefault(fact.key, fact)
    return list(found.values())


def readings(values: Values, count: int = 1, asked_first: float = 0.4) -> list[Reading]:
    """A question on a passage, and questions alone on other facts of it, up to `count` in all.

    asked_first: how often the question stands before the passage.
    """
    rng = values.rng
    known = facts(values, rng.randint(1, 2) if values.level == 0 else rng.randint(2, 5))
    fact, *others = rng.sample(known, min(count, len(known)))
    first = values.level > 0 and values.chance(asked_first)
    forms = _ASKED_FIRST if first else _ASKED_LAST
    if values.level < 2:
        forms = forms[:2]
    system, user, _ = rng.choices(forms, [weight for *_, weight in forms])[0]
    join = rng.choice(_JOINS) if values.level > 1 else " "
    passage = ("- " if join == "\n- " else "") + join.join(one.text for one in known)
    question = rng.choice(fact.questions)
    asked = Reading(_put(system, passage, question), _put(user, passage, question), fact.answer, first)
    return [asked, *(Reading("", rng.choice(other.questions), other.answer, False) for other in others)]


def _put(form: str, passage: str, question: str) -> str:
    return form.replace("{q}", question).replace("{p}", passage)


def _attribute(values: Values, entity: str, attribute: str) -> Fact:
    answer = said(_any(values)).rstrip(".!?")
    forms = (
        f"The {attribute} of {entity} is {answer}.",
        f"{entity} has the {attribute} {answer}.",
        f"{entity}'s {attribute} is {answer}.",
    )
    questions = (
        f"What is the {attribute} of {entity}?",
        f"What is {entity}'s {attribute}?",
        f"Which {attribute} does {entity} have?",
    )
    return Fact((entity, attribute), _sentence(values.rng.choice(forms)), questions, answer)


def _related(values: Values, entity: str, relation: tuple[str, Sequence[str], Sequence[str], str]) -> Fact:
    key, forms, questions, sort = relation
    thing = values.word(0.1)
    answer = said(
        {"name": values.name, "word": values.word, "integer": values.integer, "moment": values.moment}[sort]()
    )
    text = values.rng.choice(forms).format(e=entity, v=answer, o=thing)
    asked = tuple(question.format(e=entity, o=thing) for question in questions)
    return Fact((entity, key + (thing if key == "have" else "")), _sentence(text) + ".", asked, answer)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _any(values: Values) -> Value:
    return values.rng.choice(
        (values.integer, lambda: values.string()[0], values.name, values.word, values.number)
    )()
