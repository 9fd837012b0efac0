"""How much of a prompt fits the context, and how many tokens there is room for behind it. Numbers only."""

from collections.abc import Sequence
from dataclasses import dataclass

from doppler_core.engine.request import PromptOverflow
from doppler_core.errors import InputError, TextTooLongError


@dataclass(frozen=True)
class PromptRoom:
    """context: tokens of prompt and answer together. begin: the token that prompts begin with. longest: the context that
    the model could be opened with; None = it is open with that."""

    context: int
    begin: int | None = None
    longest: int | None = None

    def check_least(self, tokens: int, overflow: PromptOverflow) -> None:
        """TextTooLongError where a prompt of so many tokens at least is one whatever they are: nobody has to find out."""
        if tokens > self.context and overflow == "error":
            raise self._too_long(tokens, at_least=True)

    def fit(
        self, ids: Sequence[int], max_tokens: int | None, overflow: PromptOverflow
    ) -> tuple[Sequence[int], int]:
        """The prompt's ids that are run, and the most tokens that are made: together they fit the context. InputError for
        a prompt of no token: nothing would be chosen from.

        A prompt over the context is a TextTooLongError, or loses its oldest tokens behind the begin token, until
        max_tokens (None: a quarter of the context; at most half of it) fit behind it.
        """
        if not ids:
            raise InputError(
                "the prompt comes to no token: the tokenizer puts none before an empty text, or the chat template writes "
                "nothing; give a text, or name a chat_format"
            )
        if len(ids) > self.context:
            if overflow == "error":
                raise self._too_long(len(ids))
            wanted = self.context // 4 if max_tokens is None else max_tokens
            kept = self.context - min(wanted, self.context // 2)
            head = ids[:1] if ids[0] == self.begin else ids[:0]
            ids = [*head, *ids[len(ids) - kept + len(head) :]]
        room = self.context - len(ids)
        return ids, room if max_tokens is None else min(int(max_tokens), room)

    def _too_long(self, tokens: int, at_least: bool = False) -> TextTooLongError:
        larger = self.longest is not None and tokens <= self.longest
        most = f"{self.longest}, where that is enough" if at_least else self.longest
        remedies = [
            "shorten it",
            "pass overflow='truncate_left' to drop what is oldest",
            *([f"open the model with a larger context_length, up to {most}"] if larger else []),
        ]
        return TextTooLongError(
            f"the prompt has {'at least ' * at_least}{tokens} tokens and the context {self.context}: "
            f"{', '.join(remedies[:-1])}, or {remedies[-1]}",
            index=0,
            tokens=tokens,
            limit=self.context,
        )
