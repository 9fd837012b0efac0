"""Requests to jobs for DiffusionGemma: prompts to ids, what ends an answer, how its canvases are made.

The steps are the denoiser's.
"""

from collections.abc import Sequence
from typing import Any

from doppler_core.engine.canvas_choice import choose_canvases
from doppler_core.engine.canvas_job import CanvasJob
from doppler_core.engine.denoising import Denoiser
from doppler_core.engine.endings import Endings
from doppler_core.engine.generate_check import check_generate_request
from doppler_core.engine.model_type import Opened
from doppler_core.engine.prefix import Places
from doppler_core.engine.prompt_room import PromptRoom
from doppler_core.engine.prompts import Prompts
from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.slots import layout
from doppler_core.plan.canvas_settings import canvas_settings


class DiffusionDriver:
    """Drives the phases `encode` and `denoise` of a DiffusionGemma plan."""

    def __init__(self, opened: Opened) -> None:
        self._settings = canvas_settings(opened.manifest)
        self._tokenizer = opened.tokenizer
        self._prompts = Prompts(opened.tokenizer, opened.chat_format)
        context_length = opened.room.context_length
        self._room = PromptRoom(context_length, self._prompts.begin, opened.longest)
        ends = frozenset(self._settings.eos_token_ids)  # all there are: a manifest has the checkpoint's
        self._endings = Endings(ends, opened.tokenizer, self._prompts)
        places = Places(opened.executor, layout(opened.plan, context_length), opened.executor.max_slots)
        self._denoiser = Denoiser(opened.executor, opened.plan.states(), places, context_length)

    def prepare(self, request: GenerateRequest, submitted: float) -> CanvasJob:
        """Check the request and turn its prompt into ids. InputError names the field."""
        check_generate_request(request, self._tokenizer.vocabulary)
        choice = choose_canvases(request, self._settings, self._tokenizer.vocabulary)
        prompt = self._prompts.of(request, self._room)
        wanted = self._settings.max_new_tokens if request.max_tokens is None else request.max_tokens
        ids, limit = self._room.fit(prompt.ids, wanted, request.overflow)
        return CanvasJob(
            ids,
            choice,
            self._endings.of(request, prompt, limit),
            prompt.reader,
            submitted,
            spelling=self._tokenizer if request.drafts else None,
        )

    def step(self, jobs: Sequence[CanvasJob]) -> None:
        """Carry on the jobs that have a place."""
        self._denoiser.step(jobs)

    def warmup(self) -> None:
        """Run both phases."""
        self._denoiser.warmup()

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        """Tokens of a text or a conversation as a prompt, begin token included; this model has no named prompts."""
        return self._prompts.count(prompt, prompt_name, **fields)
