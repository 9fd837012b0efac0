"""How much of a prompt fits the context, and how many tokens there is room for behind it. Numbers only."""

from collections.abc import Sequence

from doppler_core.engine.request import PromptOverflow
from doppler_core.errors import TextTooLongError


def fit_prompt(
    ids: Sequence[int],
    max_tokens: int | None,
    context_length: int,
    overflow: PromptOverflow,
    begin: int | None,
) -> tuple[Sequence[int], int]:
    """The prompt's ids that are run, and the most tokens that are made: together they fit the context.

    A prompt over the context is a TextTooLongError, or loses its oldest tokens behind the begin token, until
    max_tokens (None: a quarter of the context; at most half of it) fit behind it.
    """
    if len(ids) > context_length:
        if overflow == "error":
            raise TextTooLongError(
                f"the prompt has {len(ids)} tokens and the context {context_length}: shorten it, pass "
                "overflow='truncate_left' to drop what is oldest, or open the model with a larger context_length",
                index=0,
                tokens=len(ids),
                limit=context_length,
            )
        wanted = context_length // 4 if max_tokens is None else max_tokens
        kept = context_length - min(wanted, context_length // 2)
        head = ids[:1] if ids[0] == begin else ids[:0]
        ids = [*head, *ids[len(ids) - kept + len(head) :]]
    room = context_length - len(ids)
    return ids, room if max_tokens is None else min(int(max_tokens), room)
