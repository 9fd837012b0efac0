"""Whole conversations to learn from: greetings, passages, copying, JSON, and tools from the request to the answer.

`sample(values)` gives the segments of one conversation, each with its role. Level 0 has one tool and short values,
level 1 up to three tools, level 2 everything: system texts, several steps, earlier turns, thoughts. Knows no tokens.
"""

import json
from collections.abc import Callable, Mapping, Sequence

import wire
from passages import readings
from results import draw_result, sentence
from tools import Offer, Request, ask, offers
from values import Value, Values, said
from wire import Segment

_SHARES = {
    0: (0.45, 0.25, 0.27, 0.0, 0.03),
    1: (0.58, 0.27, 0.1, 0.02, 0.03),
    2: (0.7, 0.21, 0.03, 0.03, 0.03),
}
_ANSWERED = 0.35  # of the drill's calls: what else is said there is soon learned
_ASKED_FIRST = (
    0.5  # of the passages: to look for what was asked is harder than to look back from the question
)
_SYSTEM = (
    "You are a helpful assistant.", "You are a helpful assistant", "Be brief.", "You are a careful assistant. Use the tools.",
    "Use the tools to answer.", "You can call tools.", "Answer with the tools.", "You are a helpful agent.",
    "You are a helpful assistant that can use tools.", "Be concise and accurate.", "You are an assistant for travel.",
    "You are a calculator.", "You are a weather assistant.", "Always use a tool.",
)  # fmt: skip
_SMALL_TALK = (
    (("Hi", "Hello", "Hey", "Hi!", "Hello!", "Hi there", "Hello there", "Good morning", "hi", "hello", "Hey!", "Good evening"), "Hello! How can I help you?"),
    (("Who are you?", "What are you?", "What's your name?", "What is your name?"), "I am a tiny demo model."),
    (("Thanks", "Thank you", "Thanks!", "Thank you very much.", "Thank you!"), "You are welcome!"),
    (("Bye", "Goodbye", "See you", "Bye!"), "Goodbye!"),
    (("What can you do?", "Help", "How can you help me?", "What can you do for me?"), "I can call tools, say their results and answer questions about a short text."),
    (("How are you?", "How is it going?", "How are you today?"), "I am fine, thank you."),
)  # fmt: skip


Turn = Callable[[Values, Sequence[Offer], bool], list[Segment]]


def sample(values: Values) -> list[Segment]:
    """One conversation of the level's mixture."""
    return values.rng.choices(_KINDS, _SHARES[values.level])[0](values)


def tool_sample(values: Values, count: int | None = None, turns: int | None = None) -> list[Segment]:
    """A request with `count` tools at hand, the call, the result, the sentence that says it; `turns` times.

    What is declared once serves several requests: most of what is read would otherwise be declarations.
    """
    rng = values.rng
    if count is None:
        count = {0: 1, 1: rng.randint(1, 3)}.get(values.level) or rng.choice((1, 2, 2, 3, 3, 4, 4))
    if turns is None:
        turns = rng.choice((1, 2, 3) if count < 3 else (1, 2, 2))
    return _conversation(values, offers(values, count), [_one_step] * turns)


def two_step_sample(values: Values, count: int | None = None, turns: int | None = None) -> list[Segment]:
    """A request that takes two calls, at once or one after the other; other requests may follow."""
    kinds = (_side_by_side, _one_by_one)
    chosen: list[Turn] = [values.rng.choice(kinds)]
    if turns is None and values.chance(0.4):
        chosen.insert(values.rng.randint(0, 1), _one_step)
    return _conversation(values, offers(values, count or values.rng.choice((2, 2, 3))), chosen)


def choice_sample(values: Values) -> list[Segment]:
    """Several tools of few words and more requests: to choose is the hardest part, so it is drilled."""
    turns = [_one_step if values.chance(_ANSWERED) else _unanswered for _ in range(5)]
    return _conversation(values, offers(values, values.rng.choice((2, 3, 3, 4, 4)), brief=True), turns)


def _any_tool_sample(values: Values) -> list[Segment]:
    kind = values.rng.random() if values.level > 1 else 1.0
    return (
        two_step_sample(values)
        if kind < 0.15
        else choice_sample(values)
        if kind < 0.6
        else tool_sample(values)
    )


def _conversation(values: Values, offered: Sequence[Offer], turns: Sequence[Turn]) -> list[Segment]:
    thinking = values.level > 1 and values.chance(0.04)
    head = wire.opening(_system(values), [offer.tool for offer in offered], thinking)
    if values.level > 1 and values.chance(0.06):
        users, answer = values.rng.choice(_SMALL_TALK)
        head += wire.user_turn(values.rng.choice(users)) + wire.MODEL_TURN + answer + wire.CLOSE + "\n"
    segments: list[Segment] = [(head, "")]
    # Thoughts of turns that are over are gone: one turn shows them all.
    for turn in turns[:1] if thinking else turns:
        segments += [("\n", "")] if segments[-1][0].endswith(wire.CLOSE) else []
        segments += turn(values, offered, thinking)
    return segments


def _system(values: Values) -> str:
    if values.level < 2 or values.chance(0.6):
        return ""
    return values.rng.choice(_SYSTEM) if values.chance(0.8) else f"{values.words(3, 8).capitalize()}."


def _one_step(values: Values, offered: Sequence[Offer], thinking: bool) -> list[Segment]:
    request = ask(values, values.rng.choice(offered), offered)
    answers = [(request.name, draw_result(values))]
    return [*_called(request, thinking), (wire.results(answers), ""), *_answer(answers, thinking)]


def _unanswered(values: Values, offered: Sequence[Offer], thinking: bool) -> list[Segment]:
    """A call whose result never comes: the user asks for something else."""
    return _called(ask(values, values.rng.choice(offered), offered), thinking)


def _called(request: Request, thinking: bool) -> list[Segment]:
    return [
        (wire.user_turn(request.text) + wire.MODEL_TURN, ""),
        *thought(thinking, f"I call {request.name}."),
        *wire.call(request.name, request.arguments),
        (wire.RESULT, "chat"),
    ]


def _side_by_side(values: Values, offered: Sequence[Offer], thinking: bool) -> list[Segment]:
    """Two calls at once. Some are made one by one all the same: a framework may allow no more."""
    first, second = _two(values, offered)
    a, b = ask(values, first, offered), ask(values, second, offered)
    end = a.text.rstrip(".?! ")
    text = values.rng.choice(
        (
            f"{end} and {_lower(b)}",
            f"{a.text} And {_lower(b)}",
            f"{a.text} {b.text}",
            f"{end}, and {_lower(b)}",
        )
    )
    answers = [(a.name, draw_result(values)), (b.name, draw_result(values))]
    head: list[Segment] = [(wire.user_turn(text) + wire.MODEL_TURN, "")]
    if not thinking and values.chance(0.2):
        return [*head, *_in_turn(a, b, answers, "", thinking)]
    calls = [*wire.call(a.name, a.arguments), *wire.call(b.name, b.arguments), (wire.RESULT, "chat")]
    said_by_tools: Segment = (wire.results(answers), "")
    return [
        *head,
        *thought(thinking, f"I call {a.name} and {b.name}."),
        *calls,
        said_by_tools,
        *_answer(answers, thinking),
    ]


def _one_by_one(values: Values, offered: Sequence[Offer], thinking: bool) -> list[Segment]:
    """Two calls one after the other; the second one often takes what the first one gave."""
    first, second = _two(values, offered)
    a, result = ask(values, first, offered), draw_result(values)
    fitting = [p for p in second.tool.parameters if p.kind in ("integer", "string") and not p.choices]
    known = None
    if fitting and values.chance(0.6):
        parameter = values.rng.choice(fitting)
        value = values.integer() if parameter.kind == "integer" else values.word()
        known, result = (parameter.name, value), {"value": said(value) if values.chance(0.6) else value}
    b = ask(values, second, offered, known)
    end = a.text.rstrip(".?! ")
    text = values.rng.choice(
        (
            f"{end}, then {_lower(b)}",
            f"First {_lower(a).rstrip('.?! ')}. Then {_lower(b)}",
            f"{a.text} Then {_lower(b)}",
            f"{end} and then {_lower(b)}",
        )
    )
    head: Segment = (wire.user_turn(text) + wire.MODEL_TURN, "")
    return [head, *_in_turn(a, b, [(a.name, result), (b.name, draw_result(values))], "chat", thinking)]


def _in_turn(
    a: Request, b: Request, answers: list[tuple[str, dict[str, Value]]], role: str, thinking: bool
) -> list[Segment]:
    """Call, result, call, result, answer. role: of the end of the first call, "" where it could be another call too."""
    return [
        *thought(thinking, f"I call {a.name}."), *wire.call(a.name, a.arguments), (wire.RESULT, role), (wire.results(answers[:1]), ""),
        *thought(thinking, f"I call {b.name}.", begun=True), *wire.call(b.name, b.arguments), (wire.RESULT, "chat"),
        (wire.results(answers[1:]), ""), *_answer(answers, thinking),
    ]  # fmt: skip


def _two(values: Values, offered: Sequence[Offer]) -> tuple[Offer, Offer]:
    first = values.rng.choice(offered)
    return first, values.rng.choice([offer for offer in offered if offer is not first])


def _lower(request: Request) -> str:
    text = request.text
    return text[0].lower() + text[1:] if request.bare and not text[:2].isupper() else text


def thought(thinking: bool, text: str, begun: bool = False) -> list[Segment]:
    """After a result the prompt itself opens the thought."""
    if not thinking:
        return []
    opened: Segment = (wire.THOUGHT, "" if begun else "chat")
    return [opened, (text + wire.THOUGHT_END, "thought")]


def _answer(answers: Sequence[tuple[str, Mapping[str, Value]]], thinking: bool) -> list[Segment]:
    return [*thought(thinking, "I say the result.", begun=True), (sentence(answers) + wire.CLOSE, "say")]


def passage_sample(values: Values, turns: int | None = None) -> list[Segment]:
    """A question on a passage, and up to three more: about the same one, or each before a passage of its own."""
    asked, *more = readings(values, turns or values.rng.choice((1, 2, 3, 4)), _ASKED_FIRST)
    if asked.asked_first:
        more = [readings(values, asked_first=1.0)[0] for _ in more]
    thinking = values.level > 1 and values.chance(0.04)
    tools = [offer.tool for offer in offers(values, 1)] if values.level > 1 and values.chance(0.04) else []
    head = wire.opening(asked.system, tools, thinking) + wire.user_turn(asked.user) + wire.MODEL_TURN
    segments = [(head, ""), *thought(thinking, "I read the text."), (asked.answer + wire.CLOSE, "passage")]
    for other in more if not thinking else ():
        head = "\n" + wire.user_turn(other.user) + wire.MODEL_TURN
        segments += [(head, ""), (other.answer + wire.CLOSE, "passage")]
    return segments


def copy_sample(values: Values) -> list[Segment]:
    kinds = (
        lambda: values.code() + values.rng.choice(("", f" {values.code()}")),
        lambda: values.words(2, 6),
        lambda: str(values.rng.randint(100, 10**9)),
    )
    text = values.rng.choice(kinds)()
    head = wire.BEGIN + wire.user_turn(
        values.rng.choice(("Repeat: ", "Say: ", "Copy this: ", "Echo ")) + text
    )
    return [(head + wire.MODEL_TURN, ""), (text + wire.CLOSE, "copy")]


def json_sample(values: Values) -> list[Segment]:
    """Values out of a text as JSON, in the order in which they stand there."""
    rng = values.rng
    record: dict[str, Value] = {}
    for _ in range(rng.randint(1, 4)):
        record[values.key(known=0.8)] = values.of(rng.choice(("string", "string", "integer", "number")))[0]
    spoken = {key: key.replace("_", " ") for key in record}
    form = rng.choice(("{k} {v}", "{k}: {v}", "The {k} is {v}", "{k} is {v}"))
    texts = [form.format(k=spoken[key], v=said(value)) for key, value in record.items()]
    if "name" in record and "age" in record and values.chance(0.5):
        record = {"name": values.name(), "age": values.rng.randint(1, 99)}
        texts = [f"{record['name']} is {record['age']} years old"]
    text = (", " if form[0] == "{" else ". ").join(texts) + "."
    keys = ", ".join(record)
    ask_for = rng.choice(
        (
            f"{text}\nGive {keys} as JSON.",
            f"Extract {keys} as JSON: {text}",
            f"Extract {keys}: {text}",
            f"Extract the data as JSON: {text}",
            f"JSON: {text}",
        )
    )
    written = json.dumps(record, separators=(", ", ": ") if values.chance(0.5) else (",", ":"))
    return [(wire.BEGIN + wire.user_turn(ask_for) + wire.MODEL_TURN, ""), (written + wire.CLOSE, "json")]


def small_talk_sample(values: Values) -> list[Segment]:
    users, answer = values.rng.choice(_SMALL_TALK)
    offered = offers(values, values.rng.randint(1, 3)) if values.level and values.chance(0.6) else []
    thinking = values.level > 1 and values.chance(0.04)
    head = wire.opening(_system(values), [offer.tool for offer in offered], thinking) + wire.user_turn(
        values.rng.choice(users)
    )
    return [(head + wire.MODEL_TURN, ""), *thought(thinking, "I answer."), (answer + wire.CLOSE, "chat")]


_KINDS = (_any_tool_sample, passage_sample, copy_sample, json_sample, small_talk_sample)
