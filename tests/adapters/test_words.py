"""The constructor words, the same for both frameworks."""

import copy
import dataclasses
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from doppler_core.errors import EngineClosedError
from doppler_core.settings import EngineSettings
from doppler_plugins.adapters.embed_options import EmbedOptions
from doppler_plugins.langchain import DopplerEmbeddings
from doppler_plugins.llama_index import DopplerEmbedding
from tests.adapters.scripted import Scripted

Adapter = DopplerEmbeddings | DopplerEmbedding

both = pytest.mark.parametrize("adapter", [DopplerEmbeddings, DopplerEmbedding])


def first_number(embeddings: Adapter) -> float:
    """Something that needs the engine."""
    if isinstance(embeddings, DopplerEmbeddings):
        return embeddings.embed_query("a")[0]
    return embeddings.get_query_embedding("a")[0]


@both
def test_every_setting_and_option_is_a_word(adapter: type[Adapter]) -> None:
    words = {field.name for kind in (EngineSettings, EmbedOptions) for field in dataclasses.fields(kind)}
    words -= {"slots"}  # of models that generate text
    assert words | {"model", "keep_alive"} <= set(adapter.model_fields)
    assert words <= set(inspect.signature(adapter).parameters)


@both
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "model"),
        ({"model": ""}, "model"),
        ({"model": "scripted", "dimension": 256}, "no word 'dimension': did you mean 'dimensions'"),
        ({"model": "scripted", "trunkate_dim": 256}, "did you mean 'truncate_dim'"),
        ({"model": "scripted", "n_gpu_layers": -1}, "n_gpu_layers': here it is 'device'"),
        ({"model": "scripted", "zzz": 1}, "no word 'zzz': expected some of"),
        ({"model": "scripted", "dimensions": 0}, "dimensions=0"),
        ({"model": "scripted", "dimensions": -1}, "dimensions=-1"),
        ({"model": "scripted", "truncate_dim": 0}, "dimensions=0"),
        ({"model": "scripted", "dimensions": 256, "truncate_dim": 128}, "two names of one word"),
        ({"model": "scripted", "model_name": "other"}, "two names of one word"),
        ({"model": "scripted", "dimensions": "256"}, "dimensions"),
        ({"model": "scripted", "device": "cuda"}, "device='cuda'"),
        ({"model": "scripted", "memory_limit": 0}, "memory_limit=0"),
        ({"model": "scripted", "context_length": -5}, "context_length=-5"),
        ({"model": "scripted", "overflow": "cut"}, "overflow"),
        ({"model": "scripted", "output_dtype": "float16"}, "output_dtype"),
        ({"model": "scripted", "keep_alive": -1}, "keep_alive=-1"),
        ({"model": "scripted", "query_prompt": "a", "query_prompt_name": "b"}, "give one of the two"),
    ],
)
def test_a_wrong_word_is_a_value_error_at_construction(
    adapter: type[Adapter], words: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        adapter(**words)
    assert isinstance(caught.value, ValueError)


@both
def test_names_from_other_classes_are_understood(adapter: type[Adapter]) -> None:
    embeddings = adapter(model_name="scripted", truncate_dim=16)
    assert (embeddings.model, embeddings.dimensions) == ("scripted", 16)


@both
def test_a_path_is_as_good_as_its_text(adapter: type[Adapter]) -> None:
    embeddings = adapter(model=Path("a/b"), cache_dir=Path("c"))
    assert (embeddings.model, embeddings.cache_dir) == ("a/b", "c")


@both
def test_constructing_copying_and_pickling_open_nothing(adapter: type[Adapter], script: Scripted) -> None:
    embeddings = adapter(model="scripted")
    copies = [copy.copy(embeddings), copy.deepcopy(embeddings), pickle.loads(pickle.dumps(embeddings))]
    assert all(one.model_dump() == embeddings.model_dump() for one in copies)
    assert script.opened == []
    assert len({first_number(one) for one in [embeddings, *copies]}) == 1
    assert len(script.opened) == 1, "copies share one engine"


@both
def test_arguments_beat_the_environment(adapter: type[Adapter], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    monkeypatch.setenv("DOPPLER_PLUGINS_OFFLINE", "yes")
    assert adapter(model="scripted").device == "numpy"
    assert adapter(model="scripted", device="wgpu").device == "wgpu"
    assert adapter(model="scripted", offline=False).offline is False
    monkeypatch.setenv("DOPPLER_PLUGINS_MEMORY_LIMIT", "much")
    with pytest.raises(ValidationError, match="DOPPLER_PLUGINS_MEMORY_LIMIT"):
        adapter(model="scripted")


@both
def test_a_pickle_keeps_what_the_environment_said(
    adapter: type[Adapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    pickled = pickle.dumps(adapter(model="scripted"))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "wgpu")
    assert pickle.loads(pickled).device == "numpy"


@both
def test_the_settings_reach_the_engine(adapter: type[Adapter], script: Scripted) -> None:
    words = {"precision": "q8_0", "device": "numpy", "kernel_profile": "software", "context_length": 20}
    first_number(adapter(model="scripted", **words))
    assert script.opened == [("scripted", EngineSettings(**words))]


@both
def test_words_can_not_be_assigned_but_copied_with_a_change(adapter: type[Adapter], script: Scripted) -> None:
    embeddings = adapter(model="scripted")
    with pytest.raises(ValidationError, match="frozen"):
        embeddings.dimensions = 16
    smaller = embeddings.model_copy(update={"dimensions": 16, "model": "scripted-2"})
    first_number(smaller)
    assert (script.opened[0][0], script.requests[0].dimensions) == ("scripted-2", 16)
    assert smaller.model_copy(update={"truncate_dim": 8}, deep=True).dimensions == 8
    with pytest.raises(ValidationError, match="dimensions=0"):
        embeddings.model_copy(update={"dimensions": 0})


@both
def test_close_and_with_end_its_use_but_not_that_of_copies(adapter: type[Adapter], script: Scripted) -> None:
    with adapter(model="scripted") as embeddings:
        first_number(embeddings)
        twin = copy.copy(embeddings)
    with pytest.raises(EngineClosedError, match="make a new one"):
        first_number(embeddings)
    first_number(twin)
    embeddings.close()
    twin.close()


@both
async def test_async_with_closes_too(adapter: type[Adapter], script: Scripted) -> None:
    async with adapter(model="scripted") as embeddings:
        embeddings.warmup()
    assert len(script.opened) == 1
    with pytest.raises(EngineClosedError):
        embeddings.warmup()
