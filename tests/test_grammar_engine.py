"""A model with random weights, held to random schemas, through the whole engine."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest
from doppler_core.settings import EngineSettings
from doppler_core.text.grammar.form import JsonSchema
from doppler_plugins.opening import open_engine
from tests.grammars import random_schema

# A Gemma 4 of random weights with 512 tokens, bytes among them, and 256 places.
CHECKPOINT = Path(__file__).parent / "goldens" / "gemma4_dense"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    settings = EngineSettings(device="numpy", cache_dir=str(tmp_path_factory.mktemp("cache")))
    with open_engine(CHECKPOINT, settings) as opened:
        yield opened


@pytest.mark.parametrize("batch", range(10))
def test_three_hundred_answers_to_random_schemas_validate(batch: int, engine: Engine) -> None:
    seeds = range(batch * 30, batch * 30 + 30)
    # Without definitions that refer to themselves, which a model without a clue goes on with to its context's end.
    schemas = [random_schema(random.Random(seed), depth=1, definitions=0) for seed in seeds]
    handles = [
        engine.submit(
            GenerateRequest("say", grammar=JsonSchema(schema), temperature=1.0, top_k=0, top_p=1.0, seed=seed)
        )
        for seed, schema in zip(seeds, schemas, strict=True)
    ]
    for schema, handle in zip(schemas, handles, strict=True):
        result = handle.result(120)
        assert result.finish_reason == "stop"
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
            json.loads(result.text)
        )
