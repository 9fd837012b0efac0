"""What every part of the LlamaIndex LLM contract has: the class under test, what it can do, and what is said to it."""

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine, Iterator
from typing import Any, Self, TypeVar

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index_instrumentation import get_dispatcher
from pydantic import Field

T = TypeVar("T")

CONVERSATION = [
    ChatMessage(role="system", content="Answer in a few words."),
    ChatMessage(role="user", content="What color is the sky?"),
    ChatMessage(role="assistant", content="Blue."),
    ChatMessage(role="user", content="The grass is green. What color is the grass?"),
]
QUESTION = "What do owls eat?"


class LLMSuite:
    """Subclass a contract as `Test...`; every property may be overridden."""

    @property
    @abstractmethod
    def llm_class(self) -> type[FunctionCallingLLM]:
        """The class under test."""

    @property
    def llm_params(self) -> dict[str, Any]:
        """The words to construct it with. They have to make it say the same each time, and not too much."""
        return {}

    @property
    def has_tool_calling(self) -> bool:
        """Whether it can be given tools, and made to call them."""
        return True

    @property
    def has_structured_output(self) -> bool:
        """Whether its structured predictions always validate."""
        return True

    @property
    def thinking_words(self) -> dict[str, Any] | None:
        """Words of a call that make it think before it answers; None = it can't."""
        return None

    @property
    def logprobs_words(self) -> dict[str, Any] | None:
        """Words of a call that make it give logarithms of probabilities; None = it can't."""
        return None

    @property
    def longest_pause(self) -> float:
        """Seconds for which an event loop may stand still while answers stream."""
        return 0.5

    @pytest.fixture(autouse=True)
    def _loop_of_the_thread(self) -> Iterator[None]:
        # LlamaIndex asks for the thread's event loop to count tokens, and leaves one that it makes itself unclosed.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)
        loop.close()

    @pytest.fixture
    def llm(self) -> FunctionCallingLLM:
        """A new one for each test."""
        return self.llm_class(**self.llm_params)


class Seen(BaseEventHandler):
    """Keeps the names of the events that pass."""

    names: list[str] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        """As the base class asks."""
        return "Seen"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Keep the name of an event of an LLM."""
        if type(event).__name__.startswith("LLM"):
            self.names.append(type(event).__name__)

    def __enter__(self) -> Self:
        get_dispatcher().add_event_handler(self)
        return self

    def __exit__(self, *error: object) -> None:
        get_dispatcher().event_handlers.remove(self)


def text_of(response: ChatResponse | CompletionResponse) -> str:
    """What a response says so far."""
    return response.text if isinstance(response, CompletionResponse) else response.message.content or ""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. A loop of its own, so that no pytest plugin is needed."""
    return asyncio.run(coroutine)


async def gathered(stream: Any) -> list[Any]:
    """Everything of an awaitable that gives an asynchronous iterator."""
    return [item async for item in await stream]
