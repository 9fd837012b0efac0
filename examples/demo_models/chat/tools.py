"""Tools and the requests that need them: generated ones, and those that people try first.

Takes `Values`, gives offered tools with a way to ask for each. Knows nothing of the wire format's text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from usual_tools import USUAL, Usual
from values import VERBS, Value, Values, said
from wire import Parameter, Tool

# Weights of 0, 1, 2 and 3 parameters, by level.
_COUNTS = {0: (0.05, 0.7, 0.25, 0.0), 1: (0.05, 0.6, 0.25, 0.1), 2: (0.03, 0.32, 0.42, 0.23)}
_BRIEF = (0.35, 0.65, 0.0, 0.0)
# Where the names of verb and noun, and those of the noun alone, end; the others are in camel case. The drill has more of
# those that no request spells out: a name is to be looked up, not put together from what was asked.
_SHAPES = (0.75, 0.9)
_DRILLED_SHAPES = (0.4, 0.65)


@dataclass(frozen=True)
class Offer:
    """A tool, and how to ask for it: by verb and noun, or with the wordings of a usual tool.

    by_noun: how often a request names the noun alone, where that tells the tool.
    """

    tool: Tool
    verb: str = ""
    noun: str = ""
    usual: Usual | None = None
    by_noun: float = 0.33


@dataclass(frozen=True)
class Request:
    """What is asked, and the call that answers it. `bare`: it begins with a word that may be in lower case."""

    text: str
    name: str
    arguments: dict[str, Value]
    bare: bool = True


def offers(values: Values, count: int, brief: bool = False) -> list[Offer]:
    """So many tools of different names; often two that share a verb or a noun. brief: one parameter at most."""
    found: list[Offer] = []
    while len(found) < count:
        offer = _usual(values) if values.chance(0.22) else _made(values, _near(values, found), brief)
        if all(offer.tool.name != other.tool.name and _differ(offer, other) for other in found):
            found.append(offer)
    described = not brief and values.chance(0.3)
    found = [_described(values, offer, described) for offer in found]
    values.rng.shuffle(found)
    return found


def _differ(offer: Offer, other: Offer) -> bool:
    """Whether requests for the two can be told apart."""
    if offer.usual and other.usual:
        return offer.usual.family != other.usual.family
    return (offer.verb, offer.noun) != (other.verb, other.noun)


def _near(values: Values, found: Sequence[Offer]) -> tuple[str, str]:
    """Verb and noun to take from a tool that is there already; "" for either."""
    made = [offer for offer in found if not offer.usual]
    if not made or values.chance(0.45):
        return "", ""
    near = values.rng.choice(made)
    return (near.verb, "") if values.chance(0.55) else ("", near.noun)


def _made(values: Values, near: tuple[str, str], brief: bool) -> Offer:
    rng = values.rng
    verb, noun = near[0] or rng.choice(VERBS), near[1]
    if not noun:
        noun = values.word() + (f" {values.word(0.1)}" if values.chance(0.25) else "")
    shape = rng.random()
    both, noun_alone = _DRILLED_SHAPES if brief else _SHAPES
    # A tool that shares its noun has to have its verb in its name.
    if shape < both or (near[1] and (not brief or shape < noun_alone)):
        name = f"{verb}_{noun.replace(' ', '_')}"
    elif shape < noun_alone:
        name = noun.replace(" ", "_")
    else:
        name = f"{verb} {noun}".title().replace(" ", "")
    count = rng.choices(range(4), _BRIEF if brief else _COUNTS[values.level])[0]
    kinds = ("string", "integer", "number", "boolean")
    keys: dict[str, str] = {}
    same = rng.choice(kinds[:3]) if values.chance(0.25) else ""
    while len(keys) < count:
        keys[values.key()] = same or rng.choices(kinds, (0.55, 0.28, 0.14, 0.03))[0]
    optional = values.chance(0.2) and count > 1
    parameters = tuple(
        Parameter(k, kind, required=not (optional and values.chance(0.5))) for k, kind in keys.items()
    )
    titled = verb.capitalize()
    description = rng.choice(
        (
            f"{titled} {noun}",
            f"{titled} the {noun}",
            f"{noun.capitalize()} {verb}",
            noun.capitalize(),
            f"{titled} the {noun}.",
        )
    )
    return Offer(Tool(name, description, parameters), verb, noun, by_noun=0.6 if brief else 0.33)


def _usual(values: Values) -> Offer:
    rng = values.rng
    usual = rng.choice(USUAL)
    names = [rng.choice(alternatives) for alternatives, _ in usual.parameters]
    parameters = tuple(
        Parameter(name, _KINDS.get(sort, "string"), choices=tuple(sort.split("|")) if "|" in sort else ())
        for name, (_, sort) in zip(names, usual.parameters, strict=True)
    )
    return Offer(Tool(rng.choice(usual.names), rng.choice(usual.descriptions), parameters), usual=usual)


_KINDS = {"integer": "integer", "number": "number"}


def _described(values: Values, offer: Offer, described: bool) -> Offer:
    """The offer as a framework words it: parameters with descriptions, LlamaIndex's signature before the tool's."""
    tool = offer.tool
    if described:
        worded = (replace(p, description=_wording(values, p.name)) for p in tool.parameters)
        tool = replace(tool, parameters=tuple(worded))
    if values.chance(0.07):
        signature = ", ".join(f"{p.name}: {_PYTHON[p.kind]}" for p in tool.parameters)
        tool = replace(tool, description=f"{tool.name}({signature}) -> str\n{tool.description}")
    return replace(offer, tool=tool)


_PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def _wording(values: Values, name: str) -> str:
    words = name.replace("_", " ")
    return values.rng.choice((words.capitalize(), f"The {words}", f"{words.capitalize()} to use"))


def ask(
    values: Values, offer: Offer, among: Sequence[Offer], known: tuple[str, Value] | None = None
) -> Request:
    """A request for one of the tools offered.

    known: a parameter's name and value that the request calls "the result": the step before gives it.
    """
    if offer.usual:
        return _ask_usual(values, offer, offer.usual, known)
    arguments: dict[str, Value] = {}
    quoted: set[str] = set()
    for p in offer.tool.parameters:
        if p.required or values.chance(0.5) or (known and known[0] == p.name):
            arguments[p.name], in_quotes = values.of(p.kind)
            quoted |= {p.name} if in_quotes else set()
    if known:
        arguments[known[0]] = known[1]
    shares_noun = any(other is not offer and other.noun == offer.noun for other in among)
    head, bare = _head(values, offer, needs_verb=shares_noun)
    parts = _parts(values, offer, arguments, quoted, known[0] if known else "")
    if not parts:
        return Request(
            head + values.rng.choice((".", "?", " please.", " now.")), offer.tool.name, arguments, bare
        )
    joined = values.rng.choice((", ", " and ", ", ")).join(parts)
    text = (
        head
        + values.rng.choice((" ", ", ", ": ", " "))
        + joined
        + values.rng.choice((".", "", "?", " please", "."))
    )
    return Request(text, offer.tool.name, arguments, bare)


def _head(values: Values, offer: Offer, needs_verb: bool) -> tuple[str, bool]:
    verb, noun = offer.verb, offer.noun
    if not needs_verb and values.chance(offer.by_noun):
        forms: tuple[str, ...] = (
            f"I need {noun}", noun.capitalize(), f"I need the {noun}", f"Tell me the {noun}", f"Give me the {noun}",
            f"What is the {noun}", f"The {noun} please", f"I want {noun}",
        )  # fmt: skip
    else:
        forms = (
            f"{verb.capitalize()} {noun}", f"{verb.capitalize()} the {noun}", f"Please {verb} {noun}",
            f"Can you {verb} the {noun}", f"Use {offer.tool.name}", f"I want to {verb} a {noun}", f"{verb.capitalize()} my {noun}",
        )  # fmt: skip
    text = values.rng.choice(forms)
    return text, not text.startswith("I ")


def _parts(
    values: Values, offer: Offer, arguments: dict[str, Value], quoted: set[str], known: str
) -> list[str]:
    """Each argument as a request names it, in any order. One without its name is the only one of its kind."""
    kinds = {p.name: p.kind for p in offer.tool.parameters}
    optional = any(not p.required for p in offer.tool.parameters)
    names = list(arguments)
    values.rng.shuffle(names)
    parts = []
    for name in names:
        kind = kinds[name]
        text = "the result" if name == known else said(arguments[name])
        if name != known and (name in quoted or (kind == "string" and values.chance(0.15))):
            text = f'"{text}"'
        spoken = name.replace("_", " ") if values.chance(0.7) else name
        alone = (
            [kinds[other] for other in arguments].count(kind) == 1
            and not optional
            and kind != "boolean"
            and not known
        )
        if alone and values.chance(0.25):
            parts.append(values.rng.choice((f"for {text}", text, f"with {text}", text)))
        else:
            forms = (
                "{n} {v}",
                "with {n} {v}",
                "{n} is {v}",
                "{n} = {v}",
                "{n}: {v}",
                "set {n} to {v}",
                "{v} as {n}",
            )
            parts.append(values.rng.choice(forms).format(n=spoken, v=text))
    return parts


def _ask_usual(values: Values, offer: Offer, usual: Usual, known: tuple[str, Value] | None) -> Request:
    arguments = {
        p.name: _SORTS[sort](values) if sort in _SORTS else values.rng.choice(sort.split("|"))
        for p, (_, sort) in zip(offer.tool.parameters, usual.parameters, strict=True)
    }
    texts = {name: said(value) for name, value in arguments.items()}
    if known:
        arguments[known[0]], texts[known[0]] = known[1], "the result"
    wording = values.rng.choice(usual.wordings)
    text = wording.format(*(texts[p.name] for p in offer.tool.parameters))
    return Request(text, offer.tool.name, arguments, not wording.startswith(("{", "I ")))


_SORTS: dict[str, Callable[[Values], Value]] = {
    "integer": Values.integer,
    "number": Values.number,
    "place": lambda v: v.name() if v.chance(0.8) else f"{v.name()} {v.name()}",
    "person": Values.name,
    "word": Values.word,
    "code": Values.code,
    "query": lambda v: v.words(1, 4),
    "text": lambda v: v.words(2, 5).capitalize() if v.chance(0.5) else v.words(1, 4),
    "moment": Values.moment,
    "title": lambda v: " ".join(v.name() for _ in range(v.rng.randint(1, 3))),
}
