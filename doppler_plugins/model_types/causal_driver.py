"""Requests to jobs for causal models: prompts to ids, what ends an answer, how its tokens are chosen.

The steps are the decoder's.
"""

from collections.abc import Mapping, Sequence

from doppler_core.engine.choice import choose
from doppler_core.engine.decoding import Decoder, Loop
from doppler_core.engine.generate_check import check_generate_request, stop_strings
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.model_type import Opened
from doppler_core.engine.prefix import Places
from doppler_core.engine.prompt_room import fit_prompt
from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.slots import layout
from doppler_core.errors import InputError, LimitError
from doppler_core.manifest.session import DecodeLoop
from doppler_core.plan.op import HOST, Plan
from doppler_core.text.chat import ChatFormat, chat_ids, choose_format, format_named
from doppler_core.text.detokenizer import Detokenizer
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
        template = opened.manifest.inference.chat_template
        declared = template.type if template.enabled else None
        self._own_format = choose_format(declared, opened.files, opened.tokenizer)
        self._context_length = opened.room.context_length
        self._begin = opened.tokenizer.token_id(_BEGIN)
        self._defaults = opened.defaults
        named = {number for name in _ENDS if (number := self._control(name)) is not None}
        self._ends = named.union(self._defaults.end_ids)
        places = Places(opened.executor, layout(opened.plan, self._context_length), opened.executor.max_slots)
        loop = _loop(opened.manifest.session.decode_loop, opened.plan)
        self._decoder = Decoder(opened.executor, opened.plan.states(), places, loop)

    def prepare(self, request: GenerateRequest, submitted: float) -> GenerateJob:
        """Check the request and turn its prompt into ids. InputError names the field."""
        check_generate_request(request, self._tokenizer.vocabulary)
        ids, limit = fit_prompt(
            self._prompt_ids(request),
            request.max_tokens,
            self._context_length,
            request.overflow,
            self._begin,
        )
        return GenerateJob(
            ids,
            choose(request, self._defaults, self._tokenizer.vocabulary),
            self._ending(request, limit),
            request.logprobs,
            Detokenizer(self._tokenizer),
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
        """Run both phases, and every way to choose a token."""
        self._decoder.warmup()

    def count_tokens(self, text: str, prompt_name: str | None = None) -> int:
        """Tokens of `text` as a prompt, begin token included; this model has no named prompts."""
        if not isinstance(text, str):
            raise InputError(f"the text is {type(text).__name__}: expected a str")
        if prompt_name is not None:
            raise InputError(f"prompt_name={prompt_name!r}: a generating model has no named prompts")
        return len(self._text_ids(text))

    def _prompt_ids(self, request: GenerateRequest) -> Sequence[int]:
        prompt = request.prompt
        if isinstance(prompt, str):
            return self._text_ids(prompt)
        messages = [one for one in prompt if isinstance(one, Mapping)]
        if messages:
            return chat_ids(messages, self._chat_format(request.chat_format), self._tokenizer)
        return [int(one) for one in prompt if not isinstance(one, Mapping)]

    def _ending(self, request: GenerateRequest, limit: int) -> Ending:
        """A stop string that is the name of a control token, which has no text, is that token."""
        strings = tuple(map(well_formed, stop_strings(request)))
        named = {text: number for text in strings if (number := self._control(text)) is not None}
        ends = {*named.values(), *map(int, request.stop_ids)} | (set() if request.ignore_eos else self._ends)
        return Ending(limit, frozenset(ends), tuple(text for text in strings if text not in named))

    def _control(self, name: str) -> int | None:
        number = self._tokenizer.token_id(name)
        return None if number is None or self._tokenizer.piece(number) else number

    def _text_ids(self, text: str) -> list[int]:
        """The begin token is the model's, whatever the tokenizer's file does: no Gemma makes sense without it."""
        ids = self._tokenizer.encode(well_formed(text), bare=True)
        return ids if self._begin is None else [self._begin, *ids]

    def _chat_format(self, name: str | None) -> ChatFormat:
        return self._own_format if name is None else format_named(name)


def _loop(declared: DecodeLoop, plan: Plan) -> Loop:
    """The manifest's decode loop. Rows that the host gathers need each token before the next step."""
    if any(op.kernel.file == HOST for op in plan.ops()):
        return Loop(most_steps=1, most_groups=1)
    most_steps = 1 if declared.disable_command_batching else declared.batch_size * declared.readback_interval
    return Loop(most_steps, most_groups=1 if declared.readback_mode == "sequential" else 2)
