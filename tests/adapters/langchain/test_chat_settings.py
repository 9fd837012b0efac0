"""What a ChatDoppler is beside its answers: its words, copies, profile, cache keys, traces, token counts."""

import copy
import dataclasses
import gc
import pickle
import warnings
from typing import Any

import pytest
from langchain_core import exceptions
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, trim_messages
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError, create_model

from doppler_core import errors
from doppler_core.settings import EngineSettings
from doppler_core.text.grammar.form import Regex
from doppler_plugins.adapters.generation_words import GenerationWords
from doppler_plugins.langchain import ChatDoppler, DopplerLLM, init_chat_model
from doppler_plugins.langchain.errors import _TRANSLATIONS
from doppler_plugins.sharing import open_count
from tests.adapters.scripted_chat import ScriptedChat

pytestmark = pytest.mark.usefixtures("chat_script")

each = pytest.mark.parametrize("kind", [ChatDoppler, DopplerLLM])


def test_every_setting_is_a_word() -> None:
    words = {field.name for field in dataclasses.fields(EngineSettings)}
    assert words <= set(GenerationWords.model_fields)


@each
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "model"),
        ({"model": "scripted", "temprature": 1}, "did you mean 'temperature'"),
        ({"model": "scripted", "num_predict": 1}, "here it is 'max_tokens'"),
        ({"model": "scripted", "num_ctx": 1}, "here it is 'context_length'"),
        ({"model": "scripted", "temperature": -1}, "temperature=-1"),
        ({"model": "scripted", "temperature": float("nan")}, "temperature=nan"),
        ({"model": "scripted", "top_p": 1.5}, "top_p=1.5"),
        ({"model": "scripted", "top_k": -1}, "top_k=-1"),
        ({"model": "scripted", "max_tokens": -1}, "max_tokens"),
        ({"model": "scripted", "stop": [""]}, "stop"),
        ({"model": "scripted", "top_logprobs": 21}, "top_logprobs"),
        ({"model": "scripted", "timeout": 0}, "timeout"),
        ({"model": "scripted", "device": "cuda"}, "device='cuda'"),
        ({"model": "scripted", "max_tokens": 5, "max_completion_tokens": 6}, "two names of one word"),
    ],
)
def test_a_wrong_word_is_a_value_error_at_construction(
    kind: type[Any], words: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        kind(**words)


@each
def test_names_from_other_classes_are_understood(kind: type[Any]) -> None:
    model = kind(
        model_name="scripted", stop_sequences="END", max_completion_tokens=5, api_key="x", max_retries=2
    )
    assert (model.model, model.stop, model.max_tokens) == ("scripted", ("END",), 5)


@each
def test_constructing_copying_and_pickling_open_nothing(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted", temperature=0.5, stop=["END"], tags=["a"])
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert chat_script.opened == []
    assert all(one.model_dump() == model.model_dump() for one in copies)
    for one in [model, *copies]:
        one.invoke("Hi")
    assert len(chat_script.opened) == 1, "copies share one engine"
    assert {request.temperature for request in chat_script.requests} == {0.5}
    used = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert all(one.invoke("Hi") for one in used)


@each
def test_a_changed_copy_is_checked_like_a_new_one(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted")
    model.invoke("Hi")
    other = model.model_copy(update={"model_name": "scripted-2", "max_tokens": 1})
    other.invoke("Hi")
    assert [name for name, _ in chat_script.opened] == ["scripted", "scripted-2"]
    with pytest.raises(ValidationError, match="top_p=2"):
        model.model_copy(update={"top_p": 2})
    with pytest.raises(ValidationError, match="frozen"):
        model.temperature = 1


@each
def test_words_of_a_call_beat_those_of_the_constructor(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted", temperature=0.5, max_tokens=3, stop="A", seed=1, top_k=5)
    model.invoke("Hi")
    model.invoke("Hi", temperature=0, max_tokens=9, stop=["B"], seed=None, logprobs=True)
    own, said = chat_script.requests
    assert (own.temperature, own.max_tokens, own.stop, own.seed, own.logprobs) == (0.5, 3, ("A",), 1, None)
    assert (said.temperature, said.max_tokens, said.stop, said.seed, said.logprobs) == (0, 9, ("B",), 1, 0)
    assert said.top_k == 5


@each
def test_words_may_be_configured_at_run_time(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted").configurable_fields(temperature=ConfigurableField(id="warmth"))
    model.invoke("Hi", config={"configurable": {"warmth": 0.25}})
    assert chat_script.requests[0].temperature == 0.25


def test_a_call_may_name_another_model(chat_script: ScriptedChat) -> None:
    with ChatDoppler(model="scripted") as model:
        for _ in range(2):
            answer = model.invoke("Hi", model="scripted-2")
            assert answer.response_metadata["model_name"] == "scripted-2"
        assert [name for name, _ in chat_script.opened] == ["scripted-2"]
    with pytest.raises(errors.EngineClosedError):
        model.invoke("Hi", model="scripted-2")


def test_a_profile_opens_the_model_when_it_is_read(chat_script: ScriptedChat) -> None:
    model = ChatDoppler(model="scripted")
    assert model.profile
    assert "unread" in repr(model.profile)
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert chat_script.opened == []
    for one in [model, *copies]:
        assert one.profile is not None
        assert one.profile["max_input_tokens"] == 200
        assert one.profile["tool_calling"]
        assert {**one.profile} == dict(one.profile) == one.profile
        assert one.profile.get("nothing") is None
    other = model.model_copy(update={"model": "scripted-2"})
    assert other.profile is not None
    assert other.profile["name"] == "scripted-2"
    assert ChatDoppler(model="scripted", profile={"max_input_tokens": 7}).profile == {"max_input_tokens": 7}


def test_a_profile_says_what_the_capabilities_say(chat_script: ScriptedChat) -> None:
    chat_script.capabilities = dataclasses.replace(
        chat_script.capabilities,
        tools=False,
        structured=False,
        reasoning=False,
        modalities_in=("text", "image"),
    )
    profile = ChatDoppler(model="scripted").profile
    assert profile is not None
    keys = (
        "tool_calling",
        "tool_choice",
        "structured_output",
        "reasoning_output",
        "image_inputs",
        "audio_inputs",
    )
    assert [profile[key] for key in keys] == [False, False, False, False, True, False]  # type: ignore[literal-required]


@each
def test_all_that_matters_is_in_the_key_of_a_cache(kind: type[Any], chat_script: ScriptedChat) -> None:
    cache = InMemoryCache()
    model = kind(model="scripted", cache=cache)
    changes = [
        {"model": "scripted-2"}, {"temperature": 0.5}, {"top_p": 0.5}, {"seed": 1}, {"stop": ["x"]}, {"max_tokens": 5},
        {"thinking": True}, {"precision": "q8_0"}, {"context_length": 100}, {"logprobs": True}, {"chat_format": "gemma3"},
        {"repetition_penalty": 1.5}, {"overflow": "truncate_left"}, {"device": "numpy"},
    ]  # fmt: skip
    for changed in [{}, *changes]:
        model.model_copy(update=changed).invoke("Hi")
    assert len(chat_script.requests) == len(changes) + 1
    for changed in [{}, *changes]:
        model.model_copy(update=changed).invoke("Hi")
    assert len(chat_script.requests) == len(changes) + 1
    for said in ({"temperature": 0.75}, {"model": "scripted-2", "seed": 2}, {"grammar": Regex("a+")}):
        model.invoke("Hi", **said)
        model.invoke("Hi", **said)
    assert len(chat_script.requests) == len(changes) + 4


@each
def test_classes_of_one_name_are_two_in_the_key_of_a_cache(
    kind: type[Any], chat_script: ScriptedChat
) -> None:
    model = kind(model="scripted", cache=InMemoryCache())
    answers = [create_model("Answer", a=(of, ...)) for of in (int, str, int)]
    for answer in answers:
        model.invoke("Hi", response_format=answer)
    assert len(chat_script.requests) == 2


@each
@pytest.mark.parametrize("seconds", [1e18, float("inf")])
def test_a_timeout_may_be_as_good_as_none(kind: type[Any], chat_script: ScriptedChat, seconds: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a thread that failed
        kind(model="scripted").invoke("Hi", timeout=seconds)
    assert len(chat_script.requests) == 1


@each
def test_stop_that_is_no_text_is_told(kind: type[Any], chat_script: ScriptedChat) -> None:
    with pytest.raises(errors.InputError, match="stop is int"):
        kind(model="scripted").invoke("Hi", stop=5)
    assert not chat_script.requests


def test_a_call_can_do_without_the_logprobs_of_the_constructor(chat_script: ScriptedChat) -> None:
    model = ChatDoppler(model="scripted", top_logprobs=3)
    for said in ({}, {"logprobs": False}):
        model.invoke("Hi", **said)
    assert [request.logprobs for request in chat_script.requests] == [3, None]


def test_results_of_which_one_has_no_call_are_counted_with_the_others(chat_script: ScriptedChat) -> None:
    parts = [{"type": "tool_result", "tool_use_id": name, "content": "42"} for name in ("known", "orphan")]
    calls = [{"name": "add", "args": {}, "id": "known", "type": "tool_call"}]
    messages = [HumanMessage("Hi"), AIMessage("", tool_calls=calls), HumanMessage(parts)]
    assert ChatDoppler(model="scripted").get_num_tokens_from_messages(messages) > 0


@each
async def test_a_cache_is_asked_on_an_event_loop_too(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted", cache=InMemoryCache())
    assert await model.ainvoke("Hi") is not None
    await model.ainvoke("Hi")
    model.invoke("Hi")
    assert len(chat_script.requests) == 1


@each
def test_a_cache_tells_weights_apart_under_one_name(
    kind: type[Any], chat_script: ScriptedChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = InMemoryCache()
    kind(model="scripted", cache=cache).invoke("Hi")
    later = ScriptedChat(weights="others")
    monkeypatch.setattr("doppler_plugins.opening.open_engine", later.open_engine)
    kind(model="scripted", cache=cache).invoke("Hi")
    assert len(later.requests) == 1


@each
def test_traces_name_the_model_and_what_was_asked(kind: type[Any]) -> None:
    model = kind(model="scripted", temperature=0.5, max_tokens=7, stop=["END"])
    params = model._get_ls_params()
    assert params["ls_provider"] == "doppler"
    assert params["ls_model_name"] == "scripted"
    assert (params["ls_temperature"], params["ls_max_tokens"], params["ls_stop"]) == (0.5, 7, ["END"])
    assert model._get_ls_params(model="scripted-2")["ls_model_name"] == "scripted-2"
    assert model._get_ls_params(stop=["B"])["ls_stop"] == ["B"]
    assert "doppler-plugins" in model.metadata["lc_versions"]
    assert model.asdict()["_type"] in ("chat-doppler", "doppler-llm")
    assert "secret" not in repr(kind(model="scripted", api_key="secret"))


def test_tokens_are_counted_as_the_model_counts_them(chat_script: ScriptedChat) -> None:
    model = ChatDoppler(model="scripted")
    messages = [SystemMessage("a b"), HumanMessage("c d e")]
    assert (
        model.get_num_tokens_from_messages(messages) == model.invoke(messages).usage_metadata["input_tokens"]
    )  # type: ignore[index]
    tool = {"type": "function", "function": {"name": "f", "description": "a long text", "parameters": {}}}
    with_tools = model.get_num_tokens_from_messages(messages, tools=[tool])
    assert with_tools == model.bind(tools=[tool]).invoke(messages).usage_metadata["input_tokens"]
    assert with_tools > model.get_num_tokens_from_messages(messages)
    for words in ({"thinking": True}, {"chat_format": "gemma3"}, {"thinking": True, "chat_format": "gemma3"}):
        changed = model.model_copy(update=words)
        counted = changed.get_num_tokens_from_messages(messages, tools=[tool])
        assert (
            counted == changed.bind(tools=[tool]).invoke(messages).usage_metadata["input_tokens"] > with_tools
        )
    assert model.get_num_tokens("a \ud800") == model.get_num_tokens("a \ufffd")
    custom = ChatDoppler(model="scripted", custom_get_token_ids=lambda text: [1] * 99)
    assert custom.get_num_tokens("a") == 99


def test_conversations_are_trimmed_by_the_models_own_count() -> None:
    model = ChatDoppler(model="scripted")
    history = [HumanMessage("a " * 40), AIMessage("b " * 40), HumanMessage("c")]
    kept = trim_messages(history, max_tokens=20, strategy="last", token_counter=model, start_on="human")
    assert kept == history[2:]


@pytest.mark.parametrize(
    ("words", "text", "ours", "theirs"),
    [
        ({}, "long " * 300, errors.TextTooLongError, exceptions.ContextOverflowError),
        ({"model": "missing"}, "a", errors.ModelNotFoundError, exceptions.ModelNotFoundError),
    ],
)
async def test_errors_are_ours_and_langchains(
    words: dict[str, Any], text: str, ours: type[Exception], theirs: type[Exception]
) -> None:
    model = ChatDoppler(**{"model": "scripted", **words})
    for call in (model.invoke, lambda text: list(model.stream(text)), model.profile and model.invoke):
        with pytest.raises(ours) as caught:
            call(text)  # type: ignore[operator]
        assert isinstance(caught.value, theirs)
        assert not caught.value.is_retryable
    with pytest.raises(ours):
        await model.ainvoke(text)
    with pytest.raises(ours):
        [chunk async for chunk in model.astream(text)]


def test_a_model_from_its_name(chat_script: ScriptedChat) -> None:
    model = init_chat_model("doppler:scripted", temperature=0, model_provider="doppler")
    assert (type(model), model.model, model.temperature) == (ChatDoppler, "scripted", 0)
    assert init_chat_model("hf:org/name").model == "hf:org/name"
    assert chat_script.opened == []


def test_every_error_is_of_both_trees() -> None:
    for ours, joint in _TRANSLATIONS:
        assert issubclass(joint, ours)
        assert issubclass(joint, exceptions.LangChainException)


def test_a_base_model_is_no_chat_model(chat_script: ScriptedChat) -> None:
    def refuse(request: Any) -> str:
        raise errors.NoChatFormatError("this model has no chat format", formats=("gemma3",))

    chat_script.reply = refuse
    with pytest.raises(errors.NoChatFormatError) as caught:
        ChatDoppler(model="scripted").invoke("Hi")
    assert isinstance(caught.value, exceptions.ModelInvalidRequestError)
    assert caught.value.formats == ("gemma3",)


@each
def test_a_dropped_model_gives_its_engine_back(kind: type[Any], chat_script: ScriptedChat) -> None:
    gc.collect()  # those of the tests before
    before = open_count()
    model = kind(model="scripted")
    model.invoke("Hi")
    list(model.stream("Hi"))
    assert not isinstance(model, ChatDoppler) or model.profile
    assert open_count() == before + 1
    del model
    gc.collect()
    assert open_count() == before
