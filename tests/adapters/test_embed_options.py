"""Options become requests and namespaces."""

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.request import Capabilities
from doppler_core.errors import SettingsError
from doppler_plugins.adapters.embed_options import EmbedOptions, embed_request, namespace
from tests.adapters.scripted import CAPABILITIES


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, {"prompt_name": "query", "prompt": None}),
        ({"task": "Clustering"}, {"prompt_name": "Clustering", "prompt": None}),
        ({"task": "Clustering", "query_prompt_name": "STS"}, {"prompt_name": "STS", "prompt": None}),
        ({"query_prompt": "ask: "}, {"prompt": "ask: "}),
        ({"query_prompt": ""}, {"prompt": ""}),
        ({"document_prompt": "ask: "}, {"prompt_name": "query", "prompt": None}),
    ],
)
def test_a_query_takes_the_most_exact_prompt_given(words: dict[str, Any], expected: dict[str, Any]) -> None:
    request = embed_request(EmbedOptions(**words), "query", ["a"], None, CAPABILITIES)
    assert {name: getattr(request, name) for name in expected} == expected


def test_documents_take_the_name_their_checkpoint_uses() -> None:
    model = Capabilities(embeds=True, prompts=("query", "passage"))
    assert embed_request(EmbedOptions(), "document", ["a"], None, model).prompt_name == "passage"


def test_a_checkpoint_without_prompts_gets_none() -> None:
    request = embed_request(EmbedOptions(), "document", ["a"], None, Capabilities(embeds=True))
    assert request.prompt == ""


def test_own_titles_beat_the_common_one_and_queries_have_none() -> None:
    options = EmbedOptions(title="common")
    request = embed_request(options, "document", ["a", "b"], ["own", None], CAPABILITIES)
    assert request.titles == ("own", "common")
    assert embed_request(options, "document", ["a"], None, CAPABILITIES).titles == ("common",)
    assert embed_request(options, "query", ["a"], None, CAPABILITIES).titles is None
    assert embed_request(EmbedOptions(), "document", ["a"], [None], CAPABILITIES).titles is None


def test_only_the_prompt_with_a_place_for_it_takes_a_title() -> None:
    assert EmbedOptions().takes_titles(CAPABILITIES)
    assert not EmbedOptions(task="Clustering").takes_titles(CAPABILITIES)
    assert not EmbedOptions(document_prompt="text: ").takes_titles(CAPABILITIES)
    assert not EmbedOptions().takes_titles(Capabilities(embeds=True))


@pytest.mark.parametrize(
    "words",
    [
        {"dimensions": 0},
        {"dimensions": -1},
        {"dimensions": True},
        {"dimensions": 1.5},
        {"overflow": "cut"},
        {"output_dtype": "float16"},
        {"task": ""},
        {"query_prompt": "a", "query_prompt_name": "query"},
        {"document_prompt": "", "document_prompt_name": "document"},
    ],
)
def test_what_no_model_could_serve_is_refused_by_name(words: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(words))):
        EmbedOptions(**words)


CHANGES = [
    {"dimensions": 16},
    {"task": "Clustering"},
    {"query_prompt": "ask: ", "document_prompt": "say: "},
    {"query_prompt": "", "document_prompt": ""},
    {"overflow": "truncate"},
    {"output_dtype": "int8"},
    {"output_dtype": "binary"},
]


def test_every_option_kind_and_model_has_a_namespace_of_its_own() -> None:
    names = [
        namespace(EmbedOptions(**change), kind, identity, CAPABILITIES)
        for change in [{}, *CHANGES]
        for kind in ("query", "document")
        for identity in ("model one", "model two")
    ]
    assert len(set(names)) == len(names) == 4 * (len(CHANGES) + 1)


def test_options_that_lead_to_the_same_vectors_share_a_namespace() -> None:
    def name(kind: Any, **words: Any) -> str:
        return namespace(EmbedOptions(**words), kind, "model", CAPABILITIES)

    assert name("query") == name("query", dimensions=32) == name("query", query_prompt_name="query")
    assert name("query") == name("query", title="of documents") == name("query", document_prompt="x")
    assert name("document") != name("document", title="of documents")


def test_every_field_of_the_options_changes_some_namespace() -> None:
    # A field added later and forgotten in `namespace` would make a cache serve vectors of another setting.
    other = {
        "dimensions": 16,
        "task": "Clustering",
        "query_prompt_name": "Clustering",
        "document_prompt_name": "Clustering",
        "query_prompt": "a",
        "document_prompt": "a",
        "title": "a",
        "overflow": "truncate",
        "output_dtype": "int8",
    }
    assert set(other) == {field.name for field in dataclasses.fields(EmbedOptions)}
    for name, value in other.items():
        changed = EmbedOptions(**{name: value})
        assert any(
            namespace(changed, kind, "model", CAPABILITIES)
            != namespace(EmbedOptions(), kind, "model", CAPABILITIES)
            for kind in ("query", "document")
        ), name


@given(prompt=st.text(), identity=st.text())
def test_a_namespace_can_be_a_folder_whatever_the_prompt_is(prompt: str, identity: str) -> None:
    name = namespace(EmbedOptions(query_prompt=prompt), "query", identity, CAPABILITIES)
    assert re.fullmatch(r"query-[0-9a-f]{16}", name)
