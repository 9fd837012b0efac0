"""A conversation that has grown over the context: its oldest turns go, until there is room for an answer."""

from typing import TYPE_CHECKING, Any

from doppler_core.errors import TextTooLongError

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine

Turns = list[dict[str, str]]


def shortened(engine: "Engine", turns: Turns, answer: dict[str, Any]) -> Turns:
    """`turns` without the oldest pairs of a question and its reply; the system's text and the last turn stay.

    What stays leaves room for max_tokens (None: a quarter of the context; at most half of it), as `truncate_left` does.
    """
    context, wanted = engine.capabilities.context_length, answer["max_tokens"]
    most = context - min(context // 4 if wanted is None else wanted, context // 2)
    head = first_turn(turns)
    while len(turns) > head + 1 and not _fits(engine, turns, most, in_format(answer)):
        turns = turns[:head] + turns[head + 2 :]
    return turns


def first_turn(turns: Turns) -> int:
    """Where the turns begin, behind the system's text."""
    return int(bool(turns) and turns[0]["role"] == "system")


def in_format(answer: dict[str, Any]) -> dict[str, Any]:
    """The options of an answer that say how a conversation is written."""
    return {name: answer[name] for name in ("chat_format", "thinking")}


def _fits(engine: "Engine", turns: Turns, most: int, form: dict[str, Any]) -> bool:
    # What this runs is kept: the request that follows does not run it again.
    try:
        return engine.generate(turns, max_tokens=0, **form).usage.prompt_tokens <= most
    except TextTooLongError:
        return False
