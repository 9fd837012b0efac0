"""What tools give, and how the model says it.

Takes `Values`, gives results as frameworks pass them on, and the sentence for them. Knows nothing of the wire format.
"""

from collections.abc import Mapping, Sequence

from values import Value, Values, said


def draw_result(values: Values) -> dict[str, Value]:
    """What a tool gives: a text or number, as frameworks pass it on, or a mapping."""
    rng = values.rng
    if values.level == 0 or values.chance(0.55):
        return {"value": _text_result(values)}
    if values.chance(0.15):
        return {rng.choice(("result", "error")): _text_result(values)}
    keys: dict[str, Value] = {}
    for _ in range(1 if values.chance(0.6) else 2):
        kind = rng.choices(("string", "integer", "number"), (0.5, 0.3, 0.2))[0]
        keys[values.key(known=0.5)] = values.of(kind)[0]
    return keys


def _text_result(values: Values) -> Value:
    rng, kind = values.rng, values.rng.random()
    if kind < 0.35:
        return values.of(rng.choice(("string", "integer", "number")))[0]
    if kind < 0.55:
        return said(values.of(rng.choice(("integer", "number")))[0])
    if kind < 0.7:
        return f"{values.word()}, {values.integer()} {rng.choice(('degrees', 'C', values.word()))}"
    if kind < 0.85:
        return f"{values.words(2, 6).capitalize()}{rng.choice('..!')}"
    return f"{rng.choice(('It is', 'The answer is', values.name() + ' is'))} {said(values.of(rng.choice(('string', 'integer')))[0]).rstrip('.!?')}."


def sentence(answers: Sequence[tuple[str, Mapping[str, Value]]]) -> str:
    """How the model says what tools gave: a sentence as it is, anything else after what it is called."""
    found, clauses = [], []
    for name, values in answers:
        for key in sorted(values, key=str.lower):
            text = said(values[key])
            if isinstance(values[key], str) and text.endswith((".", "!", "?")):
                found += [*_joined(clauses), text]
                clauses = []
            else:
                clauses.append(f"the {_called(name, key)} is {text}")
    return " ".join([*found, *_joined(clauses)])


def _joined(clauses: list[str]) -> list[str]:
    text = " and ".join(clauses)
    return [text[0].upper() + text[1:] + "."] if text else []


def _called(tool: str, key: str) -> str:
    """`get_weather` gives the weather; a tool without a noun gives a result."""
    if key != "value":
        return key.replace("_", " ")
    _, _, noun = tool.partition("_")
    return noun.replace("_", " ") or "result"
