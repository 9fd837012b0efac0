"""A word means the same whoever says it: a constructor and a call take and refuse the same values, in every class."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_plugins.adapters.generation_words import CALL_WORDS, GenerationWords
from doppler_plugins.langchain import ChatDoppler, DopplerLLM
from doppler_plugins.llama_index import DopplerLLM as LlamaLLM
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat

NUMBERS = (0, 1, 0.5, np.float32(0.25), -1, 2, 1e39, math.nan, math.inf, "0.5", "", True, [1], 10**400)
COUNTS = (0, 1, 5, np.int64(7), 21, -1, 1.5, 2.0, "5", True, [1], 2**64)
FLAGS = (True, False, 0, 1, "yes", "", [])
VALUES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("temperature", "top_p", "min_p", "timeout"), NUMBERS),
    **dict.fromkeys(("presence_penalty", "frequency_penalty", "repetition_penalty"), NUMBERS),
    **dict.fromkeys(("max_tokens", "top_k", "seed", "steps", "top_logprobs"), COUNTS),
    **dict.fromkeys(("thinking", "constrain_tools", "drafts", "logprobs"), FLAGS),
    "logit_bias": (
        {}, {5: 1.0}, {"5": 1}, {"05": -math.inf}, {np.int64(3): np.float64(2)},
        {-1: 1.0}, {"-1": 1.0}, {"five": 1.0}, {5: "1"}, {5: None}, {5: math.nan}, {True: 1.0}, {"9" * 5000: 1.0}, [5], "5",
    ),
    "stop": ("END", ["a", "b"], ("a",), [], (), "", [""], [5], 5, b"a", {"a": 1}, {"a"}, "\ud800"),
    "chat_format": ("gemma4", "gemma3", 5, b"gemma4", True),
    "overflow": ("error", "truncate_left", "truncate", "", 5, None),
}  # fmt: skip
CASES = [(word, value) for word in CALL_WORDS for value in VALUES[word]]

every_class = pytest.mark.parametrize("kind", [ChatDoppler, DopplerLLM, LlamaLLM])


def ask(model: Any, /, **said: Any) -> Any:
    return model.complete("Hi", **said) if isinstance(model, LlamaLLM) else model.invoke("Hi", **said)


def verdict(ask_it: Callable[[], Any], script: ScriptedChat) -> GenerateRequest | str:
    """The request that it makes, or what is wrong with it."""
    script.requests.clear()
    try:
        ask_it()
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    except InputError as error:
        return str(error)
    return script.requests[0]


def test_every_word_has_values_here() -> None:
    assert set(VALUES) == set(CALL_WORDS) <= set(GenerationWords.model_fields)
    assert len({word for word, _ in CASES}) == len(CALL_WORDS)


@every_class
@pytest.mark.parametrize("word", CALL_WORDS)
def test_a_constructor_and_a_call_take_and_refuse_the_same(
    kind: type[Any], word: str, chat_script: ScriptedChat
) -> None:
    chat_script.capabilities = replace(
        CAPABILITIES, streams_drafts=True
    )  # which is asked for drafts as it is
    plain = kind(model="scripted")
    plain.warmup()
    verdicts = []
    for value in VALUES[word]:
        built = verdict(lambda: ask(kind(model="scripted", **{word: value})), chat_script)  # noqa: B023 - called at once
        said = verdict(lambda: ask(plain, **{word: value}), chat_script)  # noqa: B023
        assert built == said, f"{word}={value!r}"
        verdicts.append(isinstance(built, str))
    assert set(verdicts) == {True, False}, "some are taken and some are not"


@every_class
def test_every_value_is_known_for_what_it_is_before_anything_is_opened(
    kind: type[Any], chat_script: ScriptedChat
) -> None:
    for word, value in (("temperature", "0.5"), ("max_tokens", True), ("top_logprobs", 21), ("stop", [5])):
        with pytest.raises(InputError, match=word):
            ask(kind(model="scripted"), **{word: value})
        with pytest.raises(ValidationError, match=word):
            kind(model="scripted", **{word: value})
    assert not chat_script.opened


@every_class
@pytest.mark.parametrize("word", CALL_WORDS)
def test_none_is_what_nobody_has_said(kind: type[Any], word: str, chat_script: ScriptedChat) -> None:
    model = kind(model="scripted", **{word: None})
    assert getattr(model, word) == getattr(kind(model="scripted"), word)
    ask(model, **{word: None})
    ask(kind(model="scripted"))
    assert chat_script.requests[0] == chat_script.requests[1]


@every_class
def test_token_ids_may_be_texts_as_json_has_them(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted", logit_bias={"5": 1.0})
    ask(model)
    ask(model, logit_bias={"7": -1.0})
    assert [request.logit_bias for request in chat_script.requests] == [{5: 1.0}, {7: -1.0}]


@every_class
def test_two_names_of_one_word_are_told_of_wherever_they_stand(
    kind: type[Any], chat_script: ScriptedChat
) -> None:
    words = {"max_tokens": 5, "max_new_tokens": 6}
    with pytest.raises(ValidationError, match="two names"):
        kind(model="scripted", **words)
    with pytest.raises(InputError, match="two names"):
        ask(kind(model="scripted"), **words)
    for same in ({"max_tokens": 5, "max_new_tokens": 5}, {"max_tokens": 5, "max_new_tokens": None}):
        ask(kind(model="scripted", **same))
        ask(kind(model="scripted"), **same)
    assert {request.max_tokens for request in chat_script.requests} == {5}


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *[
            (kind, word)
            for kind in (ChatDoppler, DopplerLLM)
            for word in ("context_length", "device", "slots")
        ],
        *[(LlamaLLM, word) for word in ("model", "model_name", "context_length", "context_window", "device")],
    ],
)
def test_a_word_of_constructors_alone_is_told_for_what_it_is(
    kind: type[Any], word: str, chat_script: ScriptedChat
) -> None:
    with pytest.raises(InputError, match=f"'{word}' is a word of the constructor: model_copy"):
        ask(kind(model="scripted"), **{word: 5})


@pytest.mark.parametrize("kind", [ChatDoppler, DopplerLLM])
def test_what_is_offered_for_a_misspelt_word_of_a_call_is_one_of_a_call(
    kind: type[Any], chat_script: ScriptedChat
) -> None:
    for word, offered in (("max_new_token", "max_new_tokens"), ("context_windw", "expected some of")):
        with pytest.raises(InputError, match=offered):
            ask(kind(model="scripted"), **{word: 5})


@pytest.mark.parametrize("kind", [ChatDoppler, DopplerLLM])
@pytest.mark.parametrize("name", ["model", "model_name"])
def test_a_call_names_a_model_as_a_constructor_does(
    kind: type[Any], name: str, chat_script: ScriptedChat
) -> None:
    model = kind(model="scripted")
    for said in ("scripted-2", Path("scripted-2")):
        model.invoke("Hi", **{name: said})
        asyncio.run(model.ainvoke("Hi", **{name: said}))
        list(model.stream("Hi", **{name: said}))
    assert [opened for opened, _ in chat_script.opened] == ["scripted-2"]
    assert model._get_ls_params(**{name: "scripted-2"})["ls_model_name"] == "scripted-2"
    for wrong in ("", 5, ["scripted"]):
        with pytest.raises(InputError, match="expected the name of a model"):
            model.invoke("Hi", **{name: wrong})
