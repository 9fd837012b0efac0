"""The plans of models that generate against transformers, run by the meanings alone: every layer, logits, tokens."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, Values

from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.operands import Tables
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.model_types.causal import CausalModelType

FOLDER = Path(__file__).parent / "goldens"
MODELS = ("gemma3", "gemma4", "gemma4_dense", "gemma4_moe")
# Relative to the largest value of a layer: f32 both, sums in another order.
TOLERANCE = 5e-5
CHUNK = 8  # rows of a step at most: with the window of 8, a ring of 16 rows for 64 positions


@dataclass(frozen=True)
class Model:
    plan: Plan
    tensors: dict[str, Tensor]
    golden: dict[str, np.ndarray]
    layers: tuple[str, ...]  # the values that hold each layer's output

    @property
    def ids(self) -> np.ndarray:
        return np.concatenate([self.golden["ids"], self.golden["made"]])


@functools.cache
def model(name: str) -> Model:
    found = resolve_checkpoint(FOLDER / name, EngineSettings())
    tensors = dict(found.checkpoint.tensors)
    plan = check(CausalModelType().lower(found.manifest, tensors, Room(64, 3, CHUNK)))
    count = found.manifest.architecture.num_layers or 0
    written = {op.output.name for op in plan.phases["decode"]}
    last = "per_layer_residual" if "layers.0.per_layer_residual" in written else "ffn_residual"
    with np.load(FOLDER / name / "golden.npz") as data:
        golden = dict(data)
    return Model(plan, tensors, golden, tuple(f"layers.{layer}.{last}" for layer in range(count)))


def step(ids: list[int], first: int, place: int = 0) -> Tables:
    """One sequence's next rows."""
    rows = [[token, first + index, 0, 0] for index, token in enumerate(ids)]
    return Tables(np.array(rows, np.uint32), np.array([[0, len(ids), 0, place]], np.uint32))


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def one_by_one(of: Model) -> list[Values]:
    oracle = Oracle(of.plan, of.tensors)
    return [oracle.run("decode", step([token], position)) for position, token in enumerate(of.ids.tolist())]


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_of_every_token_has_the_hidden_state_of_transformers(name: str) -> None:
    of = model(name)
    steps = one_by_one(of)
    # transformers gives the last layer's output behind the final norm.
    for value, expected in zip(("embed", *of.layers[:-1], "final_norm"), of.golden["hidden"], strict=True):
        found = np.concatenate([values[value] for values in steps])
        assert relative(found, expected) < TOLERANCE, value
    assert relative(np.concatenate([values["logits"] for values in steps]), of.golden["logits"]) < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_in_steps_of_several_rows_has_the_hidden_states_of_transformers(name: str) -> None:
    of = model(name)
    oracle, ids = Oracle(of.plan, of.tensors), of.ids.tolist()
    for first in range(0, len(ids), CHUNK):
        values = oracle.run("prefill", step(ids[first : first + CHUNK], first))
        for value, expected in zip(
            ("embed", *of.layers[:-1], "final_norm"), of.golden["hidden"], strict=True
        ):
            found = values[value]
            # Behind the last layer that makes keys and values there is the last row alone.
            assert relative(found, expected[first : first + CHUNK][-len(found) :]) < TOLERANCE, value
        assert relative(values["logits"], of.golden["logits"][[first + CHUNK - 1]]) < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_transformers(name: str) -> None:
    of = model(name)
    oracle, ids = Oracle(of.plan, of.tensors), of.golden["ids"].tolist()
    for first in range(0, len(ids), CHUNK):
        values = oracle.run("prefill", step(ids[first : first + CHUNK], first), {"greedy"})
    made = [int(values["sampled"][0, 0])]
    tables = step(made, len(ids))
    while len(made) < len(of.golden["made"]):
        values = oracle.run("decode", tables, {"greedy", "advance"})
        made.append(int(values["sampled"][0, 0]))
        tables = Tables(values["rows"], tables.slots)
    assert made == of.golden["made"].tolist()


@settings(max_examples=15)
@given(
    name=st.sampled_from(MODELS),
    lengths=st.lists(st.integers(1, CHUNK), min_size=8, max_size=64),
    place=st.integers(0, 2),
)
def test_a_prompt_in_chunks_of_any_size_at_any_place_gives_the_same_logits(
    name: str, lengths: list[int], place: int
) -> None:
    of = model(name)
    oracle, ids, first = Oracle(of.plan, of.tensors), of.ids.tolist(), 0
    for length in lengths:
        chunk = ids[first : first + length]
        if not chunk:
            break
        values = oracle.run("decode" if len(chunk) == 1 else "prefill", step(chunk, first, place))
        first += len(chunk)
        assert relative(values["logits"], of.golden["logits"][[first - 1]]) < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_sequences_in_one_step_do_not_see_each_other(name: str) -> None:
    """Three sequences at places of their own, at different positions, a row or some rows each."""
    of = model(name)
    oracle, ids = Oracle(of.plan, of.tensors), of.ids.tolist()
    counts, at = (1, 4, 3), [0, 0, 0]
    for _ in range(12):
        rows, slots = [], []
        for slot, count in enumerate(counts):
            slots.append([len(rows), count, 0, 2 - slot])
            rows += [[ids[at[slot] + index], at[slot] + index, slot, 0] for index in range(count)]
            at[slot] += count
        values = oracle.run("prefill", Tables(np.array(rows, np.uint32), np.array(slots, np.uint32)))
        expected = of.golden["logits"][[position - 1 for position in at]]
        assert relative(values["logits"], expected) < TOLERANCE
