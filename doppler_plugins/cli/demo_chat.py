"""The second part of `demo`: demo-chat answers from the document that was found, and calls tools as an agent does.

Takes settings, gives each exchange with its steps: directly, through LangChain, through LlamaIndex. It prints nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.exchange import Exchange

FINDER, CHAT = "demo-embedding", "demo-chat"
_DOCUMENTS = (
    "Tom lives in Oslo.",
    "The bakery opens at 7:30.",
    "The password of the library is raven.",
)
_QUESTION = "Where does Tom live?"
_TASKS = ("What is the weather in Lima?", "Add 1234 and 567.")
_MOST_TURNS = 8  # a model that keeps calling ends all the same
_PROMPT = "Context: {context}\n\nQuestion: {question}"


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is 9 degrees in {city}."


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


_TOOLS: dict[str, Callable[..., Any]] = {"get_weather": get_weather, "add": add}


def directly(settings: EngineSettings) -> list[Exchange]:
    """With the engine alone: the nearest document, and calls until there are none."""
    from doppler_plugins.opening import open_engine

    with open_engine(FINDER, settings) as finder, open_engine(CHAT, settings) as engine:
        documents = finder.embed(list(_DOCUMENTS), prompt_name="document").vectors
        query = finder.embed([_QUESTION], prompt_name="query").vectors[0]
        found = _DOCUMENTS[(documents @ query).argmax()]
        prompt = _PROMPT.format(context=found, question=_QUESTION)
        answer = engine.generate([{"role": "user", "content": prompt}], temperature=0).text
        return [Exchange(_QUESTION, (found,), answer), *(_agent(engine, task) for task in _TASKS)]


def _agent(engine: Any, task: str) -> Exchange:
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    steps: list[str] = []
    for _ in range(_MOST_TURNS):
        result = engine.generate(messages, tools=_SCHEMAS, temperature=0)
        calls = result.tool_calls
        if not calls:
            break
        called = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.name, "arguments": dict(one.arguments)},
            }
            for one in calls
        ]
        messages.append({"role": "assistant", "content": result.text, "tool_calls": called})
        for one in calls:
            value = _TOOLS[one.name](**one.arguments)
            steps.append(_step(one.name, one.arguments, value))
            messages.append({"role": "tool", "tool_call_id": one.id, "content": str(value)})
    return Exchange(task, tuple(steps), result.text)


def with_langchain(settings: EngineSettings) -> list[Exchange]:
    """A chain that retrieves and streams, and a chat model with tools bound."""
    from langchain_core.messages import HumanMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.tools import tool
    from langchain_core.vectorstores import InMemoryVectorStore

    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.langchain import ChatDoppler, DopplerEmbeddings

    words = setting_words(settings)
    with (
        DopplerEmbeddings(model=FINDER, **words) as embeddings,
        ChatDoppler(model=CHAT, temperature=0, **words) as chat,
    ):
        store = InMemoryVectorStore.from_texts(list(_DOCUMENTS), embeddings)
        found = store.similarity_search(_QUESTION, k=1)[0].page_content
        chain = ChatPromptTemplate.from_template(_PROMPT) | chat | StrOutputParser()
        answer = "".join(chain.stream({"context": found, "question": _QUESTION}))
        exchanges = [Exchange(_QUESTION, (found,), answer)]
        tools = {name: tool(function) for name, function in _TOOLS.items()}
        agent = chat.bind_tools(list(tools.values()))
        for task in _TASKS:
            messages: list[Any] = [HumanMessage(task)]
            steps: list[str] = []
            for _ in range(_MOST_TURNS):
                reply = agent.invoke(messages)
                if not reply.tool_calls:
                    break
                messages.append(reply)
                for call in reply.tool_calls:
                    given = tools[call["name"]].invoke(call)
                    steps.append(_step(call["name"], call["args"], given.text))
                    messages.append(given)
            exchanges.append(Exchange(task, tuple(steps), reply.text))
    return exchanges


def with_llama_index(settings: EngineSettings) -> list[Exchange]:
    """A query engine that streams, and a FunctionAgent."""
    from llama_index.core import Document, VectorStoreIndex

    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.llama_index import DopplerEmbedding, DopplerLLM

    words = setting_words(settings)
    with (
        DopplerEmbedding(model=FINDER, **words) as finder,
        DopplerLLM(model=CHAT, temperature=0, **words) as llm,
    ):
        documents = [Document(text=text) for text in _DOCUMENTS]
        index = VectorStoreIndex.from_documents(documents, embed_model=finder)
        query_engine = index.as_query_engine(llm=llm, similarity_top_k=1, streaming=True)
        response: Any = query_engine.query(_QUESTION)  # LlamaIndex declares every kind that it may be
        found = response.source_nodes[0].text
        rag = Exchange(_QUESTION, (found,), "".join(response.response_gen))
        return [rag, *asyncio.run(_function_agent(llm))]


async def _function_agent(llm: Any) -> list[Exchange]:
    from llama_index.core.agent.workflow import FunctionAgent

    exchanges = []
    for task in _TASKS:
        output: Any = await FunctionAgent(tools=list(_TOOLS.values()), llm=llm).run(task)
        steps = tuple(
            _step(call.tool_name, call.tool_kwargs, call.tool_output.content) for call in output.tool_calls
        )
        exchanges.append(Exchange(task, steps, output.response.content or ""))
    return exchanges


def _step(name: str, arguments: Any, value: object) -> str:
    return f"{name}({', '.join(f'{key}={given!r}' for key, given in arguments.items())}) -> {value}"


_SCHEMAS = (
    {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
)
