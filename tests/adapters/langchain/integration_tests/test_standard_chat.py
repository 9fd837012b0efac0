"""LangChain's standard integration tests of chat models: on a scripted model, and on the bundled one.

The bundled model is held to tools and schemas by its grammar. What only a model that knows more can give, a value, is
judged on the scripted one, behind the same adapter: `VALUES` lists those tests.
"""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests

from doppler_core.settings import EngineSettings, data_dir
from doppler_plugins.langchain import ChatDoppler
from doppler_plugins.opening import open_engine
from tests.adapters.obedient import obedient
from tests.adapters.scripted_chat import ScriptedChat

#: Tests whose value the bundled model can't know, and why.
VALUES = {
    "test_tool_calling": "exactly one call, whose argument is 3, read off the notation magic_function(3)",
    "test_tool_calling_async": "the same",
    "test_tool_calling_with_no_arguments": "one call has to do, where nothing but the model's judgement ends the turn",
    "test_unicode_tool_call_integration": "Chinese and Japanese names, whose letters the model never saw",
}

NAME = "你好 こんにちは"
BUNDLED = {"model": "demo-chat", "device": "numpy"}


class Standard(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[ChatDoppler]:
        return ChatDoppler

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[Literal["invoke", "stream"], list[Any]]:
        return {way: ["cache_read_input", "reasoning_output"] for way in ("invoke", "stream")}

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        """The same conversation twice: the second time its keys and values are there."""
        model = ChatDoppler(**self.chat_model_params)
        answered(model, stream)
        return answered(model, stream)

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        """Thoughts of the scripted model are counted as those of any other."""
        return answered(ChatDoppler(**self.chat_model_params, thinking=True), stream)


def answered(model: ChatDoppler, stream: bool) -> AIMessage:
    text = "How do owls fly without a sound?"
    if not stream:
        return model.invoke(text)
    first, *rest = model.stream(text)
    for chunk in rest:
        first += chunk
    return first


class TestScripted(Standard):
    @pytest.fixture(autouse=True)
    def _model_that_obeys(self, chat_script: ScriptedChat) -> None:
        chat_script.reply = obedient(input=3, customer_name=NAME)

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "scripted"}

    @property
    def model_override_value(self) -> str | None:
        return "scripted-2"


@pytest.fixture(scope="class")
def held_open() -> Iterator[None]:
    """The bundled model, open from the first test of a class to its last."""
    with open_engine("demo-chat", EngineSettings(device="numpy")):
        yield


@pytest.mark.usefixtures("held_open")
class TestBundled(Standard):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        # A model this small may repeat itself within a string of JSON until it is cut: what closes one is likelier here.
        return {**BUNDLED, "logit_bias": dict.fromkeys(ChatDoppler(**BUNDLED).get_token_ids('"'), 4.0)}

    @property
    def model_override_value(self) -> str | None:
        """The same artifact by its path."""
        return str(data_dir("models") / "demo-chat")

    @pytest.fixture
    def model(self, request: Any) -> ChatDoppler:
        said = getattr(request, "param", None) or {}
        if request.function.__name__ in VALUES:
            script = request.getfixturevalue("chat_script")
            script.reply = obedient(input=3, customer_name=NAME)
            return ChatDoppler(model="scripted", **said)
        return ChatDoppler(**self.standard_chat_model_params | self.chat_model_params | said)


def test_few_tests_are_judged_on_the_scripted_model() -> None:
    assert len(VALUES) <= 6
    assert all(hasattr(TestBundled, name) for name in VALUES)
