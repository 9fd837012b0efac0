"""An open model: submit requests, from any thread or event loop, and get handles."""

import copy
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from doppler_core.engine.choice import Defaults
from doppler_core.engine.handle import Handle
from doppler_core.engine.model_type import Driver
from doppler_core.engine.request import (
    Capabilities,
    Delta,
    EmbedRequest,
    EmbedResult,
    GenerateRequest,
    GenerateResult,
    Timings,
    Usage,
)
from doppler_core.engine.request_check import check_options, check_texts
from doppler_core.engine.request_copy import own_copy
from doppler_core.engine.worker import Worker
from doppler_core.errors import EngineClosedError, InputError
from doppler_core.plan.op import Plan
from doppler_core.text.chat import Message, Tool
from doppler_core.text.tokenizer import Tokenizer

ResultT = TypeVar("ResultT")


_NOTHING_SAID = Defaults()
# What is told of a generation that is given up before it is even read.
_UNREAD = Delta("", finish_reason="cancelled", usage=Usage(0, 0, 0), timings=Timings())


class Engine:
    """A model on a device. Use it in a `with` block, or call `close`.

    identity: a hash that changes with anything that changes the vectors or the text (weights, manifest, executor).
    tokenizer: the model's own; None where it has none.
    defaults: how the tokens of a request that does not say are chosen.
    """

    def __init__(
        self,
        *,
        model_id: str,
        identity: str,
        capabilities: Capabilities,
        plan: Plan,
        driver: Driver,
        device: str,
        memory_bytes: int,
        closing: Callable[[], None],
        tokenizer: Tokenizer | None = None,
        defaults: Defaults = _NOTHING_SAID,
    ) -> None:
        self.model_id = model_id
        self.identity = identity
        self.capabilities = capabilities
        self.plan = plan
        self.device = device
        self.memory_bytes = memory_bytes
        self.tokenizer = tokenizer
        self.defaults = defaults
        self._driver = driver
        self._process = os.getpid()
        self._worker = Worker(driver, closing, model_id)
        # An engine that is dropped, or alive when the process ends, closes as if asked to.
        self._close: weakref.finalize[..., Engine] = weakref.finalize(self, self._worker.close)

    @overload
    def submit(self, request: EmbedRequest) -> Handle[EmbedResult]: ...

    @overload
    def submit(self, request: GenerateRequest) -> Handle[GenerateResult]: ...

    def submit(self, request: EmbedRequest | GenerateRequest) -> Handle[Any]:
        """Queue a request. What is wrong with it is raised by the handle. Its lists and mappings may be changed as soon as
        this returns."""
        self._check_usable()
        if isinstance(request, EmbedRequest) and not self.capabilities.embeds:
            raise InputError(
                f"{self.model_id} does not embed text: it generates; open an embedding model for that"
            )
        if isinstance(request, GenerateRequest) and not self.capabilities.generates:
            raise InputError(f"{self.model_id} does not generate text: it embeds; open a chat model for that")
        submitted = time.perf_counter()
        own = own_copy(request) if isinstance(request, EmbedRequest | GenerateRequest) else request
        unread = (_UNREAD,) if isinstance(request, GenerateRequest) else ()
        return self._worker.submit(lambda: self._driver.prepare(own, submitted), unread)

    def embed(self, texts: Iterable[str], **options: Any) -> EmbedResult:
        """Embed texts and wait; who is interrupted while waiting gives the request up. Options are the fields of
        EmbedRequest."""
        check_texts(texts)
        check_options(EmbedRequest, options)
        return _wait(self.submit(EmbedRequest(tuple(texts), **options)))

    def generate(
        self, prompt: str | Iterable[int] | Iterable[Message | Mapping[str, Any]], **options: Any
    ) -> GenerateResult:
        """Go on with a prompt and wait; who is interrupted while waiting gives the request up. Options are the fields
        of GenerateRequest. To read the text as it comes, iterate over `submit(GenerateRequest(...))`."""
        check_options(GenerateRequest, options)
        return _wait(self.submit(GenerateRequest(_whole(prompt), **options)))

    def count_tokens(
        self,
        prompt: str | Iterable[int] | Iterable[Message | Mapping[str, Any]],
        prompt_name: str | None = None,
        tools: Iterable[Tool | Mapping[str, Any]] = (),
        thinking: bool = False,
        chat_format: str | None = None,
    ) -> int:
        """Tokens of a text as this model runs it, with the named prompt in front of it; or of a conversation, as a request
        with these tools, this thinking and this chat format has it."""
        fields = {"tools": tuple(tools), "thinking": thinking, "chat_format": chat_format}
        return self._driver.count_tokens(_whole(prompt), prompt_name, **fields)

    def warmup(self) -> None:
        """Compile every kernel and touch every weight before the first request."""
        self._check_usable()
        self._worker.call(_Once(self._driver.warmup)).result()

    def close(self) -> None:
        """Fail what is under way and give memory and device back. A second call does nothing."""
        if self._process == os.getpid():
            self._close()

    def lease(self, released: Callable[[], None]) -> "Engine":
        """A share of this engine: the same worker, but closing it only calls `released`, once."""
        share = copy.copy(self)
        share._close = weakref.finalize(share, released)
        return share

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._close.alive

    def _check_usable(self) -> None:
        if self._process != os.getpid():
            raise EngineClosedError(
                "this engine was opened before the process forked, and neither its thread nor a GPU device survives a fork: "
                "open the model in the child, and start workers with the 'spawn' method"
            )
        if self.closed:
            raise EngineClosedError(f"the engine of {self.model_id} is closed: open the model again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole(prompt: Any) -> Any:
    """What is read only once, as a tuple; what is wrong with it says whoever checks it."""
    return tuple(prompt) if isinstance(prompt, Iterable) and not isinstance(prompt, str | bytes) else prompt


def _wait(handle: Handle[ResultT]) -> ResultT:
    try:
        return handle.result()
    except BaseException:
        handle.cancel()
        raise


class _Once:
    """A function of the worker's: a job that is done once it was called."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __call__(self) -> "_Once":
        self._call()
        return self

    def done(self) -> bool:
        return True

    def result(self) -> None:
        return None

    def news(self) -> tuple[Delta, ...]:
        return ()

    def cancel(self) -> None:
        return None
