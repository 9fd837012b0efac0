"""A grammar for a model that may think first: takes one for its answer, gives one for the whole reply."""

from doppler_core.text.grammar.form import Grammar, Lark


def after_thought(answer: Grammar, opens: str, closes: str, within: bool = False) -> Lark:
    """The answer, and before it perhaps a thought, in which anything may be said.

    opens, closes: the control tokens around a thought, by their texts. within: the prompt has begun a thought, which
    therefore has to be closed.
    """
    begin = f"THOUGHT? {closes}" if within else f"({opens} THOUGHT? {closes})?"
    return Lark(f"start: {begin} @answer\nTHOUGHT: /(?s:.+)/", {"answer": answer})
