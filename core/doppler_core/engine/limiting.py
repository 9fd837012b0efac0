"""What limits a request's tokens: takes a request and its prompt, gives the mask of its own, of its grammar, of its tools.

A grammar is compiled on a thread of its own, as that may take long, and must wait for the table of the tokenizer the
first time: the requests of others go on meanwhile.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from doppler_core.engine.prompts import Prompt
from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.token_mask import CheckedMask
from doppler_core.text.chat import Control, Piece
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.thinking import after_thought
from doppler_core.text.grammar.tool_grammar import tool_grammar


@dataclass(frozen=True)
class Limits:
    """For the tokens of one model. table: of its tokenizer."""

    table: TokenTable

    def of(self, request: GenerateRequest, prompt: Prompt) -> Future[CheckedMask] | None:
        """The mask of a request that has been checked; None where nothing limits its tokens.

        The future fails of an InputError: a grammar that is malformed, a tool's schema that can't be
        held, a tool_choice that names no tool.
        """
        if request.mask is not None:
            return _done(CheckedMask(request.mask(), self.table.vocabulary))
        if request.grammar is None and (not prompt.tools or _is_free(request)):
            return None
        return _begun(partial(self._compiled, request, prompt))

    def _compiled(self, request: GenerateRequest, prompt: Prompt) -> CheckedMask:
        grammar = request.grammar
        if prompt.tools:
            grammar = tool_grammar(prompt.tools, request.tool_choice, request.parallel_tool_calls, grammar)
        assert grammar is not None
        thought = None if prompt.chat_format is None else prompt.chat_format.thought
        if request.thinking and thought is not None:
            grammar = after_thought(grammar, *thought, within=_in_thought(prompt.pieces, thought[0]))
        return CheckedMask(constraint(self.table, grammar), self.table.vocabulary)


def _is_free(request: GenerateRequest) -> bool:
    """Whether the model may call as it likes: other choices can't be had without a grammar."""
    return request.tool_choice == "auto" and request.constrain_tools is False


def _in_thought(pieces: Sequence[Piece], opens: str) -> bool:
    """Whether a prompt ends within a thought."""
    return [piece.token for piece in pieces if isinstance(piece, Control)][-1:] == [opens]


def _done(mask: CheckedMask) -> Future[CheckedMask]:
    made: Future[CheckedMask] = Future()
    made.set_result(mask)
    return made


def _begun(make: Callable[[], CheckedMask]) -> Future[CheckedMask]:
    made: Future[CheckedMask] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # noqa: BLE001 - the request has to learn of it, whatever it is
            made.set_exception(error)

    # No daemon, as the worker that starts it is: native code that is at work when the interpreter goes away ends the
    # process badly.
    threading.Thread(target=run, name="doppler-plugins grammar", daemon=False).start()
    return made
