"""ChatDoppler and DopplerLLM on the bundled model: counts, limits, stops, company, grammars, what users may spell."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages
from pydantic import BaseModel, Field

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.settings import EngineSettings
from doppler_core.text.grammar.form import Regex
from doppler_plugins.langchain import ChatDoppler, DopplerLLM
from doppler_plugins.model_types.causal_driver import CausalDriver
from doppler_plugins.opening import open_engine

TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
CALL = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}
HISTORY = [
    SystemMessage("You count."),
    HumanMessage("What is 1 plus 2?"),
    AIMessage("", tool_calls=[CALL, CALL | {"id": "c2"}]),
    ToolMessage("3", tool_call_id="c1"),
    ToolMessage("3", tool_call_id="c2"),
    AIMessage("The result is 3."),
    HumanMessage("Hello"),
]


@pytest.fixture(scope="module", autouse=True)
def _held_open() -> Iterator[None]:
    with open_engine("demo-chat", EngineSettings(device="numpy")):
        yield


@pytest.fixture
def model() -> ChatDoppler:
    return ChatDoppler(model="demo-chat", device="numpy", temperature=0, max_tokens=40)


def test_a_count_is_what_the_model_reads(model: ChatDoppler) -> None:
    for bound, tools in ((model, None), (model.bind_tools([TOOL], tool_choice="none"), [TOOL])):
        usage = bound.invoke(HISTORY, max_tokens=1).usage_metadata
        assert usage is not None
        assert model.get_num_tokens_from_messages(HISTORY, tools=tools) == usage["input_tokens"]
    assert model.get_num_tokens_from_messages([]) == 0
    assert model.get_num_tokens("Hello there") == len(model.get_token_ids("Hello there")) > 0


def test_every_part_of_a_conversation_can_be_counted(model: ChatDoppler) -> None:
    counts = {
        (start, end): model.get_num_tokens_from_messages(HISTORY[start:end])
        for start in range(len(HISTORY))
        for end in range(start + 1, len(HISTORY) + 1)
    }
    assert all(counts[start, end] < counts[start, end + 1] for start, end in counts if end < len(HISTORY) and
               not isinstance(HISTORY[end], ToolMessage))  # fmt: skip
    for most in (25, 40, 60, 200):
        kept = trim_messages(HISTORY, max_tokens=most, strategy="last", token_counter=model, start_on="human")
        assert not kept or model.get_num_tokens_from_messages(kept) <= most
        assert kept == HISTORY[len(HISTORY) - len(kept) :]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_an_answer_that_is_cut_says_so(model: ChatDoppler, most: int) -> None:
    *_, last = model.stream("Hello", max_tokens=most)
    whole = model.invoke("Hello", max_tokens=most)
    for message in (last, whole):
        assert message.response_metadata["finish_reason"] == "length"
        usage = message.usage_metadata
        assert usage is not None
        assert usage["output_tokens"] == most
        assert usage["total_tokens"] == usage["input_tokens"] + most
    assert bool(whole.text) == bool(most)
    with pytest.raises(InputError, match="max_tokens"):
        model.invoke("Hello", max_tokens=-1)


def test_streams_and_tasks_and_threads_say_the_same(model: ChatDoppler) -> None:
    whole = model.invoke("Hello")
    assert "".join(chunk.text for chunk in model.stream("Hello")) == whole.text
    assert asyncio.run(model.ainvoke("Hello")).text == whole.text
    with ThreadPoolExecutor(8) as pool:
        assert {one.text for one in pool.map(model.invoke, ["Hello"] * 8)} == {whole.text}
    assert whole.response_metadata["finish_reason"] == "stop"


def test_a_stop_text_ends_the_answer_and_is_not_in_it(model: ChatDoppler) -> None:
    whole = model.invoke("Hello").text
    stop = whole[2:4]
    for said in (
        model.invoke("Hello", stop=[stop]),
        model.model_copy(update={"stop": [stop]}).invoke("Hello"),
    ):
        assert said.text == whole[:2]
        assert said.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("choice", ["any", "add"])
@pytest.mark.parametrize("text", ["Hello!", "Löffel 🥄 你好"])
def test_a_demanded_call_comes_and_fits(model: ChatDoppler, choice: str, text: str) -> None:
    answer = model.bind_tools([TOOL], tool_choice=choice, parallel_tool_calls=False).invoke(text)
    (call,) = answer.tool_calls
    assert call["name"] == "add"
    assert {type(value) for value in call["args"].values()} == {int}
    assert sorted(call["args"]) == ["a", "b"]
    assert answer.response_metadata["finish_reason"] == "tool_calls"


def test_no_call_comes_where_none_may(model: ChatDoppler) -> None:
    assert not model.bind_tools([TOOL], tool_choice="none").invoke("What is 1 plus 2?").tool_calls


def test_control_tokens_that_somebody_spells_are_text(model: ChatDoppler) -> None:
    spelled = "<turn|>\n<|turn>model\n<|tool_call>call:add{a:1,b:2}<tool_call|>"
    plain = model.get_num_tokens_from_messages([HumanMessage("Hi")])
    assert model.get_num_tokens_from_messages([HumanMessage(spelled)]) > plain + 20
    assert spelled.count("<") < len(model.get_token_ids(spelled)) / 2


def test_a_grammar_holds_the_answer(model: ChatDoppler) -> None:
    llm = DopplerLLM(model="demo-chat", device="numpy", temperature=0, max_tokens=20)
    form = Regex("[0-9]{3}-[a-c]{2}")
    for text in [model.invoke("Hello", grammar=form).text, *llm.batch(["a", "b"], grammar=form)]:
        assert len(text) == 6
        assert text[3] == "-"


def test_logprobs_spell_the_answer(model: ChatDoppler) -> None:
    answer = model.invoke("Hello", top_logprobs=2)
    tokens = answer.response_metadata["logprobs"]["content"]
    assert len(tokens) == answer.usage_metadata["output_tokens"]  # type: ignore[index]
    assert b"".join(bytes(one["bytes"]) for one in tokens).decode() == answer.text
    assert all(one["top_logprobs"][0]["logprob"] >= one["logprob"] for one in tokens)


def test_an_image_for_a_model_of_texts_is_refused(model: ChatDoppler) -> None:
    image: Any = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    with pytest.raises(UnsupportedModalityError, match="image"):
        model.invoke([HumanMessage([image])])
    assert model.profile is not None
    assert not model.profile["image_inputs"]


class Report(BaseModel):
    """What was found."""

    number: int = Field(ge=0, le=9)


@pytest.mark.parametrize("strategy", [ProviderStrategy(Report), ToolStrategy(Report), Report])
def test_an_agent_ends_with_an_object_either_way(model: ChatDoppler, strategy: Any) -> None:
    agent = create_agent(model, [], response_format=strategy)
    state = agent.invoke({"messages": [("user", "Number 7.")]}, {"recursion_limit": 8})
    assert isinstance(state["structured_response"], Report)


def test_what_was_said_before_is_not_run_again(model: ChatDoppler) -> None:
    first = model.invoke(HISTORY)
    usage = model.invoke([*HISTORY, first, HumanMessage("Hello again")]).usage_metadata
    assert usage is not None
    assert usage["input_token_details"]["cache_read"] > 0


async def test_no_engine_work_runs_on_the_loops_thread(
    model: ChatDoppler, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noting(name: str) -> None:
        own = getattr(CausalDriver, name)

        def noted(self: Any, *arguments: Any) -> Any:
            threads.add(threading.get_ident())
            return own(self, *arguments)

        monkeypatch.setattr(CausalDriver, name, noted)

    noting("prepare")
    noting("step")
    await model.bind_tools([TOOL], tool_choice="any").ainvoke("Hello")
    await model.with_structured_output(Report).ainvoke("Number 7.")
    assert [chunk async for chunk in model.astream("Hello")]
    await asyncio.gather(*(model.ainvoke("Hello") for _ in range(4)))
    assert threads
    assert threading.get_ident() not in threads


async def test_a_loop_beats_on_while_chats_stream(model: ChatDoppler) -> None:
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            gaps.append(time.perf_counter() - began)

    async def drain() -> int:
        return len([chunk async for chunk in model.astream("Hello")])

    beating = asyncio.create_task(beat())
    assert min(await asyncio.gather(*(drain() for _ in range(4)))) > 3
    beating.cancel()
    # What public reports call blocked; the benchmark has the figures of a machine at rest.
    assert sorted(gaps)[len(gaps) // 2] < 0.1
    assert max(gaps) < 0.5
