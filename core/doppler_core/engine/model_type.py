"""What a model type is: how a manifest becomes a plan, and how requests become steps of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from doppler_core.device.executor import Executor
from doppler_core.engine.choice import Defaults
from doppler_core.engine.request import Capabilities, Delta
from doppler_core.manifest.model import Manifest
from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room
from doppler_core.text.chat import ChatFormat
from doppler_core.text.tokenizer import Tokenizer
from doppler_core.weights.tensor import Tensor


class Job(Protocol):
    """One request on its way: made by `Driver.prepare`, carried on by `Driver.step`."""

    def done(self) -> bool:
        """Whether the result is whole."""

    def result(self) -> Any:
        """The result of a job that is done; raises what was wrong with this request alone."""

    def news(self) -> Sequence[Delta]:
        """What has come since the last call, the last delta with the finish_reason; nothing for results that come
        whole."""

    def cancel(self) -> None:
        """The caller gave the request up: no step carries it on."""


class Driver(Protocol):
    """Turns requests into steps. The engine's worker thread is the only one that calls it, but where another is named."""

    def prepare(self, request: Any, submitted: float) -> Job:
        """Check and tokenise a request, submitted at that time.perf_counter(); raises InputError. Called from a thread of
        its own, one request after the other, while the worker steps: it touches nothing that steps change."""

    def step(self, jobs: Sequence[Job]) -> None:
        """Run one step that carries on as many of the unfinished jobs as fit, the first ones first."""

    def warmup(self) -> None:
        """Run every phase once, so that no request pays for compiling kernels."""

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        """Tokens of a text or of a conversation, as a request of this model would run it. fields: of the request, that say
        what its prompt is: tools, thinking, chat_format. Called from any thread."""


@dataclass(frozen=True)
class Opened:
    """What a driver is made of: a plan bound to a device, and what turns its rows into text.

    files: the checkpoint's tokenizer and generation files, by name. defaults: what the latter say. chat_format: how a
    model that generates holds a conversation; one that refuses it where it does not. longest: tokens of a sequence that
    the model can be opened for; None = as many as in `room`.
    """

    executor: Executor
    plan: Plan
    tokenizer: Tokenizer
    manifest: Manifest
    room: Room
    files: Mapping[str, Path]
    defaults: Defaults
    chat_format: ChatFormat
    longest: int | None = None


class ModelType(Protocol):
    """A kind of model. Third parties add one through the entry points of doppler_plugins."""

    name: str
    architectures: tuple[str, ...]

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """What a model with this (resolved) manifest can do."""

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor], room: Room) -> Plan:
        """The plan of a resolved manifest, with the largest step that it may be given; raises PlanError or
        ManifestError."""

    def driver(self, opened: Opened) -> Driver:
        """What drives the phases of the plan on an executor."""
