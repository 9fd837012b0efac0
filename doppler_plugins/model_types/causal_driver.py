"""Requests to jobs for causal models: prompts to ids, what ends an answer, how its tokens are chosen.

The steps are the decoder's.
"""

from collections.abc import Sequence
from typing import Any

from doppler_core.engine.canvas_choice import refuse_canvas_wishes
from doppler_core.engine.choice import choose
from doppler_core.engine.decoding import Decoder, Loop
from doppler_core.engine.endings import endings
from doppler_core.engine.generate_check import check_generate_request
from doppler_core.engine.generation import GenerateJob
from doppler_core.engine.limiting import Limits
from doppler_core.engine.model_type import Opened
from doppler_core.engine.prefix import Places
from doppler_core.engine.prompt_room import PromptRoom
from doppler_core.engine.prompts import Prompts
from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.slots import layout
from doppler_core.manifest.session import DecodeLoop
from doppler_core.plan.op import HOST, Plan
from doppler_core.text.grammar.table import TokenTable


class CausalDriver:
    """Drives the phases `prefill` and `decode` of a causal plan."""

    def __init__(self, opened: Opened) -> None:
        self._tokenizer = opened.tokenizer
        self._prompts = Prompts(opened.tokenizer, opened.chat_format)
        context_length = opened.room.context_length
        self._room = PromptRoom(context_length, self._prompts.begin, opened.longest)
        self._defaults = opened.defaults
        self._endings = endings(opened.tokenizer, self._prompts, self._defaults.end_ids)
        own = opened.chat_format
        # Made on a thread of its own when a grammar or a tool first needs it: to make it holds up all of Python for a
        # second with a large vocabulary, which a first token would wait for.
        self._table = TokenTable(
            opened.tokenizer, self._endings.ids | self._prompts.ids_of(own.ends), own.marks
        )
        self._limits = Limits(self._table)
        places = Places(opened.executor, layout(opened.plan, context_length), opened.executor.max_slots)
        loop = _loop(opened.manifest.session.decode_loop, opened.plan)
        self._decoder = Decoder(opened.executor, opened.plan.states(), places, loop)

    def prepare(self, request: GenerateRequest, submitted: float) -> GenerateJob:
        """Check the request and turn its prompt into ids. InputError names the field."""
        check_generate_request(request, self._tokenizer.vocabulary)
        refuse_canvas_wishes(request)
        prompt = self._prompts.of(request, self._room)
        ids, limit = self._room.fit(prompt.ids, request.max_tokens, request.overflow)
        ending = self._endings.of(request, prompt, limit)
        limited = self._limits.of(request, prompt)
        return GenerateJob(
            ids,
            choose(request, self._defaults, limited, prompt.forbidden - ending.ids),
            ending,
            request.logprobs,
            prompt.reader,
            submitted,
        )

    def step(self, jobs: Sequence[GenerateJob]) -> None:
        """Carry on the jobs that have a place."""
        self._decoder.step(jobs)

    def warmup(self) -> None:
        """Run both phases, and every way to choose a token; begin the table that grammars need."""
        self._decoder.warmup()
        self._table.start()

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        """Tokens of a text or a conversation as a prompt, begin token included; this model has no named prompts."""
        return self._prompts.count(prompt, prompt_name, **fields)


def _loop(declared: DecodeLoop, plan: Plan) -> Loop:
    """The manifest's decode loop. Rows that the host gathers need each token before the next step."""
    if any(op.kernel.file == HOST for op in plan.ops()):
        return Loop(most_steps=1, most_groups=1)
    most_steps = 1 if declared.disable_command_batching else declared.batch_size * declared.readback_interval
    return Loop(most_steps, most_groups=1 if declared.readback_mode == "sequential" else 2)
