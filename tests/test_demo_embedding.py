"""The bundled model on questions it was not trained on: is the right passage first, on both executors?"""

import json
from pathlib import Path

import numpy as np
import pytest

from doppler_core.settings import EngineSettings, data_dir
from doppler_plugins.opening import open_engine

ROOT = Path(__file__).parents[1]
PASSAGES = json.loads((ROOT / "examples/demo_models/embedding/passages.json").read_text("utf-8"))
QUESTIONS = json.loads((ROOT / "tests/data/demo_embedding_questions.json").read_text("utf-8"))


# Measured: 161 of 168, 157 and 149. The floors leave what the rounding of another device may turn over; 85 % of the
# questions, whole vectors, is what this model promises.
@pytest.mark.parametrize(("dimensions", "floor"), [(128, 0.93), (64, 0.90), (32, 0.85)])
@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_the_right_passage_comes_first(device: str, dimensions: int, floor: float) -> None:
    with open_engine("demo-embedding", EngineSettings(device=device)) as engine:
        documents = engine.embed([row["text"] for row in PASSAGES], dimensions=dimensions).vectors
        questions = [row["question"] for row in QUESTIONS]
        queries = engine.embed(questions, prompt_name="query", dimensions=dimensions).vectors
    places = {row["id"]: place for place, row in enumerate(PASSAGES)}
    right = np.array([places[row["passage"]] for row in QUESTIONS])
    assert len(QUESTIONS) >= 100
    assert float(np.mean((queries @ documents.T).argmax(1) == right)) >= floor


def test_it_is_small() -> None:
    files = [
        path for path in (data_dir("models") / "demo-embedding").iterdir() if path.name != ".verified.json"
    ]
    assert sum(path.stat().st_size for path in files) < 3_000_000
