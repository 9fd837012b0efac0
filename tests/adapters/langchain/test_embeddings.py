"""What DopplerEmbeddings does beyond LangChain's standard tests."""

import asyncio
import re

import numpy as np
import pytest
from langchain_core import exceptions
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from doppler_core import errors
from doppler_plugins.langchain import DopplerEmbeddings, TitledEmbeddings
from tests.adapters.scripted import Scripted

pytestmark = pytest.mark.usefixtures("script")


@pytest.fixture
def embeddings() -> DopplerEmbeddings:
    return DopplerEmbeddings(model="scripted")


def test_queries_and_documents_take_their_own_prompts(
    embeddings: DopplerEmbeddings, script: Scripted
) -> None:
    assert embeddings.embed_query("a") != embeddings.embed_documents(["a"])[0]
    assert [request.prompt_name for request in script.requests] == ["query", "document"]


def test_async_is_the_same(embeddings: DopplerEmbeddings) -> None:
    assert asyncio.run(embeddings.aembed_query("a")) == embeddings.embed_query("a")
    assert asyncio.run(embeddings.aembed_documents(["a", "b"])) == embeddings.embed_documents(["a", "b"])
    titled = asyncio.run(embeddings.aembed_titled(["a", "b"], ["One", None]))
    assert titled == embeddings.embed_titled(["a", "b"], ["One", None])


def test_empty_texts_and_lists_are_in_order(embeddings: DopplerEmbeddings) -> None:
    assert embeddings.embed_documents([]) == []
    vectors = embeddings.embed_documents(["a", "", "  \n", "b"])
    assert np.isfinite(vectors).all()
    assert vectors[1] == vectors[2] != vectors[0]


def test_titles_change_documents_and_only_those_that_have_one(embeddings: DopplerEmbeddings) -> None:
    plain = embeddings.embed_documents(["a", "b"])
    titled = embeddings.embed_titled(["a", "b"], ["Ponds", None])
    assert titled[0] != plain[0]
    assert titled[1] == plain[1]
    common = DopplerEmbeddings(model="scripted", title="Ponds")
    assert common.embed_documents(["a"])[0] == titled[0]
    assert common.embed_query("a") == embeddings.embed_query("a")


def test_a_title_with_no_place_in_the_prompt_is_an_error() -> None:
    clustering = DopplerEmbeddings(model="scripted", task="Clustering", title="Ponds")
    with pytest.raises(errors.InputError, match="Ponds"):
        clustering.embed_documents(["a"])


def test_a_vector_store_embeds_with_the_titles_of_its_documents(embeddings: DopplerEmbeddings) -> None:
    documents = [
        Document("they freeze over", metadata={"title": "Ponds in winter"}),
        Document("they freeze over in part", metadata={}),
        Document("see above", metadata={"title": "One"}),
        Document("see above", metadata={"title": "Two"}),
    ]
    titled = embeddings.with_titles_of(documents)
    assert titled.titles == {"they freeze over": "Ponds in winter"}
    store = InMemoryVectorStore.from_documents(documents, titled)
    stored = {tuple(entry["vector"]) for entry in store.store.values()}
    assert tuple(embeddings.embed_titled(["they freeze over"], ["Ponds in winter"])[0]) in stored
    assert tuple(embeddings.embed_documents(["see above"])[0]) in stored
    assert store.similarity_search("ponds winter", k=1)[0].page_content == "they freeze over"
    found = asyncio.run(store.asimilarity_search("ponds winter", k=1))
    assert found[0].page_content == "they freeze over"
    asyncio.run(store.aadd_documents(documents))
    assert {tuple(entry["vector"]) for entry in store.store.values()} == stored


def test_a_view_needs_no_documents(embeddings: DopplerEmbeddings) -> None:
    view = TitledEmbeddings(embeddings, {})
    assert view.embed_documents(["a"]) == embeddings.embed_documents(["a"])
    assert asyncio.run(view.aembed_query("a")) == embeddings.embed_query("a")


def test_cache_namespaces_separate_kinds_options_and_models(embeddings: DopplerEmbeddings) -> None:
    others = [
        embeddings,
        embeddings.model_copy(update={"dimensions": 16}),
        embeddings.model_copy(update={"precision": "q8_0"}),
        embeddings.model_copy(update={"model": "scripted-2"}),
        embeddings.model_copy(update={"task": "Clustering"}),
    ]
    names = [name for one in others for name in (one.cache_namespace, one.query_cache_namespace)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.\-/]+", name) for name in names), (
        "LangChain's file store takes these"
    )
    assert DopplerEmbeddings(model="scripted").cache_namespace == embeddings.cache_namespace


@pytest.mark.parametrize(
    ("words", "text", "ours", "theirs"),
    [
        ({}, "long " * 100, errors.TextTooLongError, exceptions.ContextOverflowError),
        ({"dimensions": 9}, "a", errors.InputError, exceptions.ModelInvalidRequestError),
        ({"task": "Unknown"}, "a", errors.InputError, exceptions.ModelInvalidRequestError),
        ({"model": "missing"}, "a", errors.ModelNotFoundError, exceptions.ModelNotFoundError),
    ],
)
def test_errors_are_ours_and_langchains(
    words: dict[str, object], text: str, ours: type[Exception], theirs: type[Exception]
) -> None:
    embeddings = DopplerEmbeddings(**{"model": "scripted", **words})
    for call in (
        lambda: embeddings.embed_query(text),
        lambda: embeddings.embed_documents(["a", text]),
        lambda: asyncio.run(embeddings.aembed_query(text)),
        lambda: asyncio.run(embeddings.aembed_documents([text])),
    ):
        with pytest.raises(ours) as caught:
            call()
        assert isinstance(caught.value, theirs)
        assert not caught.value.is_retryable
        assert str(caught.value) == str(caught.value.__cause__)
        assert vars(caught.value).items() >= vars(caught.value.__cause__).items()


def test_a_lost_device_may_be_retried(embeddings: DopplerEmbeddings, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise errors.DeviceLostError("the driver was reset")

    monkeypatch.setattr("tests.adapters.scripted.Driver.step", lose)
    with pytest.raises(errors.DeviceLostError) as caught:
        embeddings.embed_query("a")
    assert isinstance(caught.value, exceptions.ModelAPIError)
    assert caught.value.is_retryable


def test_errors_langchain_has_no_class_for_pass_as_they_are(embeddings: DopplerEmbeddings) -> None:
    embeddings.close()
    with pytest.raises(errors.EngineClosedError):
        embeddings.embed_query("a")
