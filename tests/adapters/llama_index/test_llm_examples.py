"""The LlamaIndex chat examples do with the bundled models what they say.

Programs of their own: one of them sets LlamaIndex's settings for everybody.
"""

import re

from tests.adapters.test_examples import run


def test_an_agent_calls_the_right_one_of_three_tools_for_each_question() -> None:
    calls = re.findall(r"^  calls (.*)$", run("llama_index_agent.py"), re.MULTILINE)
    assert calls == ["get_weather(city='Oslo')", "add(a=17, b=25)", "set_timer(minutes=12)"]


def test_a_query_engine_answers_from_the_notes_that_an_embedding_model_finds() -> None:
    lines = run("llama_index_chat_rag.py").splitlines()
    assert lines[1::3] == ["  from: Tom lives in Oslo.", "  from: The code of the garden gate is 4711."]
    assert ["Oslo" in lines[2], "4711" in lines[5]] == [True, True]
