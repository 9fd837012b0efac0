"""What ends an answer: the model's end tokens, and what a request stops at. It knows no device."""

from collections.abc import Iterable
from dataclasses import dataclass

from doppler_core.engine.generate_check import stop_strings
from doppler_core.engine.generation import Ending
from doppler_core.engine.prompts import Prompt, Prompts
from doppler_core.engine.request import GenerateRequest
from doppler_core.text.tokenizer import Tokenizer, well_formed

_ENDS = (
    "<eos>",
    "<end_of_turn>",
    "<turn|>",
)  # of a text, and of the model's turn in Gemma 3's and Gemma 4's chats


@dataclass(frozen=True)
class Endings:
    """Of one model. ids: its end tokens, whatever the request."""

    ids: frozenset[int]
    tokenizer: Tokenizer
    prompts: Prompts

    def of(self, request: GenerateRequest, prompt: Prompt, limit: int) -> Ending:
        """The ending of a request that has been checked. A stop string that is the name of a control token, which has
        no text, is that token."""
        strings = tuple(map(well_formed, stop_strings(request)))
        named = {text: number for text in strings if (number := _control(text, self.tokenizer)) is not None}
        ends = {*named.values(), *map(int, request.stop_ids)}
        if not request.ignore_eos:
            ends |= self.ids
            if prompt.chat_format is not None:
                ends |= self.prompts.ids_of(prompt.chat_format.ends)
        return Ending(
            limit,
            frozenset(ends),
            tuple(text for text in strings if text not in named),
            one_call=bool(prompt.tools) and not request.parallel_tool_calls,
        )


def endings(tokenizer: Tokenizer, prompts: Prompts, own: Iterable[int]) -> Endings:
    """The endings of a model whose files name `own` as end tokens, beside those that every Gemma has."""
    named = {number for name in _ENDS if (number := _control(name, tokenizer)) is not None}
    return Endings(frozenset(named.union(own)), tokenizer, prompts)


def _control(name: str, tokenizer: Tokenizer) -> int | None:
    number = tokenizer.token_id(name)
    return None if number is None or tokenizer.piece(number) else number
