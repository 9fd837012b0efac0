"""The third part of `demo`: demo-diffusion makes canvases, and what stands on them is seen while they form.

Takes settings, gives each exchange with its drafts: directly, through LangChain, through LlamaIndex. It prints nothing.
"""

from collections.abc import Iterable

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.canvas_view import plain
from doppler_plugins.cli.exchange import Exchange

CANVAS = "demo-diffusion"
_TASKS = ("Sort: pear lemon apple", "Count down from 46 to 39.")
_SEED = 1  # the same in each way, which therefore sees the same drafts


def directly(settings: EngineSettings) -> list[Exchange]:
    """With the engine alone: a request that shows its drafts."""
    from doppler_core.engine.request import GenerateRequest
    from doppler_plugins.opening import open_engine

    exchanges = []
    with open_engine(CANVAS, settings) as engine:
        for task in _TASKS:
            prompt = ({"role": "user", "content": task},)
            handle = engine.submit(GenerateRequest(prompt, drafts=True, seed=_SEED))
            drafts = [delta.canvas.text for delta in handle if delta.canvas is not None]
            exchanges.append(_exchange(task, drafts, handle.result().text))
    return exchanges


def with_langchain(settings: EngineSettings) -> list[Exchange]:
    """Drafts come in chunks that have no text."""
    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.langchain import ChatDoppler

    exchanges = []
    with ChatDoppler(model=CANVAS, drafts=True, seed=_SEED, **setting_words(settings)) as model:
        for task in _TASKS:
            chunks = list(model.stream(task))
            drafts = [
                draft["text"] for chunk in chunks for draft in chunk.additional_kwargs.get("drafts", ())
            ]
            exchanges.append(_exchange(task, drafts, "".join(chunk.text for chunk in chunks)))
    return exchanges


def with_llama_index(settings: EngineSettings) -> list[Exchange]:
    """Drafts come in responses that add no text."""
    from llama_index.core.base.llms.types import ChatMessage

    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.llama_index import DopplerLLM

    exchanges = []
    with DopplerLLM(model=CANVAS, drafts=True, seed=_SEED, **setting_words(settings)) as llm:
        for task in _TASKS:
            drafts, answer = [], ""
            for response in llm.stream_chat([ChatMessage(role="user", content=task)]):
                if draft := response.additional_kwargs.get("draft"):
                    drafts.append(draft["text"])
                answer += response.delta or ""
            exchanges.append(_exchange(task, drafts, answer))
    return exchanges


def _exchange(task: str, drafts: Iterable[str], answer: str) -> Exchange:
    """Of drafts that are alike, one after the other, the first."""
    steps, before = [], None
    for number, draft in enumerate(drafts, 1):
        if draft != before:
            steps.append(f"step {number}: {_in_a_line(draft)}")
        before = draft
    return Exchange(task, tuple(steps), answer)


def _in_a_line(draft: str) -> str:
    """What is random may be any character."""
    return " ".join(plain(draft).split())
