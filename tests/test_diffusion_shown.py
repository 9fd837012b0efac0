"""A tiny random DiffusionGemma through the whole engine: its canvases on the command line, in a page, in both frameworks."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel

from doppler_core.engine.request import Canvas, GenerateRequest, GenerateResult
from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli import program
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.langchain import ChatDoppler
from doppler_plugins.langchain import DopplerLLM as TextModel
from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.opening import open_engine

GOLDENS = Path(__file__).parent / "goldens"
# Three steps: a random model magnifies last bits from step to step, and a prompt that is kept may change those.
WORDS: dict[str, Any] = {"seed": 3, "max_tokens": 20, "steps": 3}
OPTIONS = ("--seed", "3", "--max-tokens", "20", "--steps", "3", "--device", "numpy")
MODEL: dict[str, Any] = {"device": "numpy", "chat_format": "gemma4", **WORDS}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Converted, and open for as long as these tests run."""
    out = tmp_path_factory.mktemp("models") / "tiny"
    own = EngineSettings(cache_dir=str(tmp_path_factory.mktemp("cache")))
    convert_checkpoint(resolve_checkpoint(GOLDENS / "diffusion", own), own, out)
    with open_engine(str(out), EngineSettings(device="numpy")):
        yield str(out)


@pytest.fixture(scope="module")
def canvases(model: str) -> tuple[list[Canvas], GenerateResult]:
    """What the engine itself tells of an answer, and the answer."""
    with open_engine(model, EngineSettings(device="numpy")) as engine:
        engine.generate("owls fly", **WORDS)  # the prompt is kept from here on
        handle = engine.submit(GenerateRequest("owls fly", drafts=True, **WORDS))
        return [delta.canvas for delta in handle if delta.canvas is not None], handle.result()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in this process; gives stdout and stderr."""

    def call(*arguments: object) -> tuple[str, str]:
        capsys.readouterr()
        code = program.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out, err

    return call


def test_the_text_is_the_same_whether_its_canvases_are_seen(
    model: str, run: Any, canvases: tuple[list[Canvas], GenerateResult]
) -> None:
    told, result = canvases
    out, err = run("generate", model, "owls fly", *OPTIONS, "--canvas")
    steps, taken = (
        re.findall(r"^canvas \d+, step \d+ of 3, ", err, re.MULTILINE),
        result.usage.denoising_steps,
    )
    assert out == run("generate", model, "owls fly", *OPTIONS)[0] == result.text + "\n"
    assert len(steps) == len(told) == taken
    assert f"in {taken} steps ({result.usage.tokens_per_forward:.1f} a step)" in err


def test_the_objects_of_json_hold_what_the_engine_tells(
    model: str, run: Any, canvases: tuple[list[Canvas], GenerateResult]
) -> None:
    out, _ = run("generate", model, "owls fly", *OPTIONS, "--canvas", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    told = [one["canvas"] for one in found if "canvas" in one]
    assert [(one["number"], one["step"], one["done"]) for one in told] == [
        (canvas.number, canvas.step, canvas.done) for canvas in canvases[0]
    ]
    assert [tuple(one["ids"]) for one in told] == [canvas.ids for canvas in canvases[0]]
    assert found[-1]["usage"]["denoising_steps"] == len(told)
    assert found[-1]["usage"]["tokens_per_forward"] > 0


def test_the_page_replays_every_step(model: str, run: Any, tmp_path: Path) -> None:
    seen = ("--canvas", "--json", "--canvas-html", tmp_path / "run.html")
    out, err = run("generate", model, "owls fly", *OPTIONS, *seen)
    told = [one["canvas"] for one in map(json.loads, out.splitlines()) if "canvas" in one]
    (data,) = re.findall(r'json">(.*?)</script>', (tmp_path / "run.html").read_text("utf-8"))
    frames = json.loads(data)["frames"]
    assert err.endswith(f"run.html: {len(frames)} steps to replay\n")
    assert [frame["entropies"] for frame in frames] == [
        [round(100 * one) for one in canvas["entropies"]] for canvas in told
    ]


def test_langchain_streams_settled_text_and_the_drafts_that_the_engine_tells(model: str) -> None:
    chat = ChatDoppler(model=model, **MODEL)
    chat.invoke("owls fly")  # the prompt is kept from here on
    answer = chat.invoke("owls fly")
    whole: Any = None
    for chunk in chat.stream("owls fly", drafts=True):
        whole = chunk if whole is None else whole + chunk
    drafts = whole.additional_kwargs["drafts"]
    assert whole.text == answer.text
    assert len(drafts) == answer.response_metadata["denoising_steps"] > 0
    assert answer.response_metadata["tokens_per_forward"] > 0
    last = [one["text"] for one in drafts if one["done"]]
    assert len(last) == len({one["canvas"] for one in drafts})


def test_langchains_text_model_streams_what_it_answers(
    model: str, canvases: tuple[list[Canvas], GenerateResult]
) -> None:
    text = TextModel(model=model, device="numpy", **WORDS)
    assert text.invoke("owls fly") == "".join(text.stream("owls fly")) == canvases[1].text


def test_llama_index_streams_settled_text_and_the_drafts_that_the_engine_tells(model: str) -> None:
    llm = DopplerLLM(model=model, **MODEL)
    messages = [ChatMessage(role="user", content="owls fly")]
    llm.chat(messages)  # the prompt is kept from here on
    answer, responses = llm.chat(messages), list(llm.stream_chat(messages, drafts=True))
    drafts = [one for response in responses if (one := response.additional_kwargs.get("draft"))]
    assert responses[-1].message.content == answer.message.content
    assert answer.raw is not None
    assert len(drafts) == answer.raw["usage"]["denoising_steps"] > 0
    settled = [response.message.content or "" for response in responses]
    assert all(after.startswith(before) for before, after in itertools.pairwise(settled))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"top_k": 5}, "drawn by temperature, steps and seed alone"),
        ({"steps": 10**6}, "at most for a canvas"),
        ({"logprobs": True}, "no probabilities of one token after the other"),
        ({"response_format": {"type": "object"}}, "capabilities.structured is False"),
    ],
)
def test_what_canvases_can_not_be_held_to_is_said_in_the_words_of_the_call(
    model: str, said: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        ChatDoppler(model=model, **MODEL).invoke("owls fly", **said)


class Owl(BaseModel):
    name: str


OWL = (Owl, PromptTemplate("An owl."))


async def _all_of(stream: Coroutine[Any, Any, AsyncGenerator[Any]]) -> list[Any]:
    return [found async for found in await stream]


@pytest.mark.parametrize("mode", [PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION])
@pytest.mark.parametrize(
    "predict",
    [
        lambda llm: llm.structured_predict(*OWL),
        lambda llm: asyncio.run(llm.astructured_predict(*OWL)),
        lambda llm: list(llm.stream_structured_predict(*OWL)),
        lambda llm: asyncio.run(_all_of(llm.astream_structured_predict(*OWL))),
        lambda llm: llm.as_structured_llm(Owl).complete("An owl."),
        lambda llm: list(llm.as_structured_llm(Owl).stream_chat([ChatMessage("An owl.")])),
    ],
    ids=["predict", "apredict", "stream", "astream", "complete", "stream_chat"],
)
def test_no_object_is_made_of_a_canvas_that_nothing_holds_to_its_class(
    model: str, predict: Callable[[DopplerLLM], Any], mode: PydanticProgramMode
) -> None:
    """Streaming too, where LlamaIndex does not insist on the call, and text passes for an object without values."""
    with pytest.raises(InputError, match="the model itself says whether it calls"):
        predict(DopplerLLM(model=model, pydantic_program_mode=mode, **MODEL))
