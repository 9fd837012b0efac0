"""Requests to jobs for causal models: prompts to ids, what ends an answer, how its tokens are chosen.

The steps are the decoder's.
"""

from collections.abc import Sequence
from typing import Any

from doppler_core.engine.choice import choose
from doppler_core.engine.decoding import Decoder, Loop
from doppler_core.engine.generate_check import check_generate_request, stop_strings
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.limiting import Limits
from doppler_core.engine.model_type import Opened
from doppler_core.engine.prefix import Places
from doppler_core.engine.prompt_room import fit_prompt
from doppler_core.engine.prompts import Prompt, Prompts
from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.slots import layout
from doppler_core.errors import InputError, LimitError
from doppler_core.manifest.session import DecodeLoop
from doppler_core.plan.op import HOST, Plan
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import well_formed

_BEGIN = "<bos>"
_ENDS = (
    "<eos>",
    "<end_of_turn>",
    "<turn|>",
)  # of a text, and of the model's turn in Gemma 3's and Gemma 4's chats


class CausalDriver:
    """Drives the phases `prefill` and `decode` of a causal plan."""

    def __init__(self, opened: Opened) -> None:
        self._tokenizer = opened.tokenizer
        self._prompts = Prompts(opened.tokenizer, opened.chat_format, opened.tokenizer.token_id(_BEGIN))
        self._context_length = opened.room.context_length
        self._defaults = opened.defaults
        named = {number for name in _ENDS if (number := self._control(name)) is not None}
        self._ends = named.union(self._defaults.end_ids)
        own = opened.chat_format
        # Made on a thread of its own when a grammar or a tool first needs it: to make it holds up all of Python for a
        # second with a large vocabulary, which a first token would wait for.
        self._table = TokenTable(opened.tokenizer, self._ends | self._prompts.ids_of(own.ends), own.marks)
        self._limits = Limits(self._table)
        places = Places(opened.executor, layout(opened.plan, self._context_length), opened.executor.max_slots)
        loop = _loop(opened.manifest.session.decode_loop, opened.plan)
        self._decoder = Decoder(opened.executor, opened.plan.states(), places, loop)

    def prepare(self, request: GenerateRequest, submitted: float) -> GenerateJob:
        """Check the request and turn its prompt into ids. InputError names the field."""
        check_generate_request(request, self._tokenizer.vocabulary)
        prompt = self._prompts.of(request)
        ids, limit = fit_prompt(
            prompt.ids, request.max_tokens, self._context_length, request.overflow, self._prompts.begin
        )
        return GenerateJob(
            ids,
            choose(request, self._defaults, self._limits.of(request, prompt)),
            self._ending(request, prompt, limit),
            request.logprobs,
            prompt.reader,
            submitted,
        )

    def step(self, jobs: Sequence[GenerateJob]) -> None:
        """Carry on the jobs that have a place."""
        try:
            self._decoder.step(jobs)
        except MemoryError as error:
            raise LimitError(
                f"the system gives no memory for a step ({error}): close other engines or programs, or open the model "
                "with a smaller context_length or fewer slots"
            ) from error

    def warmup(self) -> None:
        """Run both phases, and every way to choose a token; begin the table that grammars need."""
        self._decoder.warmup()
        self._table.start()

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, tools: Sequence[Any] = ()) -> int:
        """Tokens of a text or a conversation as a prompt, begin token included; this model has no named prompts."""
        if prompt_name is not None:
            raise InputError(f"prompt_name={prompt_name!r}: a generating model has no named prompts")
        return self._prompts.count(prompt, tools)

    def _ending(self, request: GenerateRequest, prompt: Prompt, limit: int) -> Ending:
        """A stop string that is the name of a control token, which has no text, is that token."""
        strings = tuple(map(well_formed, stop_strings(request)))
        named = {text: number for text in strings if (number := self._control(text)) is not None}
        ends = {*named.values(), *map(int, request.stop_ids)}
        if not request.ignore_eos:
            ends |= self._ends
            if prompt.chat_format is not None:
                ends |= self._prompts.ids_of(prompt.chat_format.ends)
        return Ending(
            limit,
            frozenset(ends),
            tuple(text for text in strings if text not in named),
            one_call=bool(prompt.tools) and not request.parallel_tool_calls,
        )

    def _control(self, name: str) -> int | None:
        number = self._tokenizer.token_id(name)
        return None if number is None or self._tokenizer.piece(number) else number


def _loop(declared: DecodeLoop, plan: Plan) -> Loop:
    """The manifest's decode loop. Rows that the host gathers need each token before the next step."""
    if any(op.kernel.file == HOST for op in plan.ops()):
        return Loop(most_steps=1, most_groups=1)
    most_steps = 1 if declared.disable_command_batching else declared.batch_size * declared.readback_interval
    return Loop(most_steps, most_groups=1 if declared.readback_mode == "sequential" else 2)
