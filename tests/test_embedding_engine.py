"""The embedding engine on the tiny model: what a request may ask, and that company never changes a vector."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import EmbedRequest
from doppler_core.errors import (
    DeviceError,
    EngineClosedError,
    InputError,
    LimitError,
    SettingsError,
    TextTooLongError,
)
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

TEXTS = [
    "the last train",
    "",
    "salt",
    "A kettle sings before the water boils. " * 4,
    "salt",
    "🚂 12 eggs\n\n\tflour",
]

# Sums in another order: 1e-5 with NumPy and 1e-4 on a GPU are what a mixed batch may differ from a text alone.
TOLERANCES = {"numpy": 1e-5, "wgpu": 1e-4}


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def engine(request: pytest.FixtureRequest, tiny_artifact: Path) -> Iterator[Engine]:
    with open_engine(tiny_artifact, EngineSettings(device=request.param)) as opened:
        yield opened


@pytest.fixture(scope="module")
def numpy_engine(tiny_artifact: Path) -> Iterator[Engine]:
    with open_engine(tiny_artifact, EngineSettings(device="numpy")) as opened:
        yield opened


def tolerance(engine: Engine) -> float:
    return TOLERANCES[engine.device.split()[0]]


def test_a_text_has_one_vector_alone_in_any_batch_and_in_any_order(engine: Engine) -> None:
    alone = np.stack([engine.embed([text]).vectors[0] for text in TEXTS])
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [3, 3, 3, 0, 1, 2]):
        together = engine.embed([TEXTS[index] for index in order]).vectors
        assert np.abs(together - alone[order]).max() < tolerance(engine)


def test_vectors_have_unit_length_and_equal_texts_equal_vectors(engine: Engine) -> None:
    vectors = engine.embed(TEXTS).vectors
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.abs(vectors[2] - vectors[4]).max() < tolerance(engine)


def test_eight_threads_at_once_get_what_one_gets(engine: Engine) -> None:
    calls = [[TEXTS[(start + step) % len(TEXTS)] for step in range(3)] for start in range(16)]
    expected = [engine.embed(call).vectors for call in calls]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda call: engine.embed(call).vectors, calls))
    assert max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True)) < tolerance(engine)


def test_the_same_call_repeated_gives_the_same_bits(engine: Engine) -> None:
    first = engine.embed(TEXTS).vectors
    assert all(np.array_equal(engine.embed(TEXTS).vectors, first) for _ in range(5))


@examples(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_texts_give_finite_unit_vectors(numpy_engine: Engine, texts: list[str]) -> None:
    vectors = numpy_engine.embed(texts).vectors
    assert vectors.shape == (len(texts), 64)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_vectors(numpy_engine: Engine) -> None:
    assert numpy_engine.embed([]).vectors.shape == (0, 64)


def test_the_prompt_a_request_names_is_put_before_its_texts(numpy_engine: Engine) -> None:
    query = numpy_engine.embed(["salt"], prompt_name="query").vectors
    assert np.array_equal(query, numpy_engine.embed(["task: search result | query: salt"], prompt="").vectors)
    assert not np.allclose(query, numpy_engine.embed(["salt"]).vectors, atol=1e-2)


def test_a_title_changes_the_document_it_belongs_to(numpy_engine: Engine) -> None:
    titled = numpy_engine.embed(["salt", "salt"], titles=("Kitchen", None)).vectors
    literal = numpy_engine.embed(["title: Kitchen | text: salt"], prompt="").vectors
    assert np.allclose(titled[0], literal[0], atol=1e-6)
    assert np.allclose(titled[1], numpy_engine.embed(["salt"]).vectors[0], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dimensions": 63}, "dimensions=63"),
        ({"dimensions": 0}, "dimensions=0"),
        ({"prompt_name": "nothing"}, "'document', 'query'"),
        ({"output_dtype": "float16"}, "float32, int8 or binary"),
        ({"titles": ("a", "b")}, "2 titles for 1 texts"),
        ({"titles": "x"}, "titles: expected a str or None for each text, got str"),
        ({"titles": iter("x")}, "titles: expected .* got str_"),
        ({"titles": (5,)}, "title 0 is int"),
        ({"prompt_name": None}, "prompt_name is NoneType"),
        ({"prompt": 5}, "prompt is int"),
        ({"prompt": b"x"}, "prompt is bytes"),
        ({"dimensions": 64.0}, "dimensions is float"),
        ({"dimensions": np.array([64, 64])}, "dimensions is ndarray"),
        ({"dimensions": True}, "dimensions=True"),
        ({"overflow": "cut"}, "overflow='cut': expected 'error' or 'truncate'"),
        ({"overflow": None}, "overflow is NoneType"),
        ({"output_dtype": ["int8"]}, "output_dtype is list"),
    ],
)
def test_an_option_the_model_does_not_have_is_an_error_that_lists_what_it_has(
    numpy_engine: Engine, options: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        numpy_engine.submit(EmbedRequest(("x",), **options)).result()  # type: ignore[arg-type]


def test_a_text_that_is_no_str_is_named_by_its_index(numpy_engine: Engine) -> None:
    with pytest.raises(InputError, match="text 1 is int"):
        numpy_engine.submit(EmbedRequest(("x", 7))).result()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ("eggs", "put it in a list"),
        (b"eggs", "put it in a list"),
        (None, "expected a list of str, got NoneType"),
        (iter(["x"]), "texts is"),
    ],
)
def test_texts_that_are_no_list_of_texts_are_refused(numpy_engine: Engine, texts: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        numpy_engine.submit(EmbedRequest(texts)).result()


@pytest.mark.parametrize("request_", [None, "eggs", {"texts": ("eggs",)}])
def test_what_is_no_request_is_refused(numpy_engine: Engine, request_: Any) -> None:
    with pytest.raises(InputError, match="expected an EmbedRequest"):
        numpy_engine.submit(request_).result()


def test_odd_but_right_types_work(numpy_engine: Engine) -> None:
    plain = numpy_engine.embed(["eggs"]).vectors
    for texts in (np.array(["eggs"]), {"eggs": 1}, (text for text in ["eggs"])):
        assert np.array_equal(
            numpy_engine.embed(texts, dimensions=np.int64(64), titles=(None,)).vectors, plain
        )


def test_counting_takes_a_text_and_the_name_of_a_prompt(numpy_engine: Engine) -> None:
    for arguments in ((None,), (b"eggs",), ("eggs", 5)):
        with pytest.raises(InputError, match="expected"):
            numpy_engine.count_tokens(*arguments)


def test_a_step_without_memory_is_a_limit(numpy_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*step: object) -> None:
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(numpy_engine._driver._executor, "run", starved)  # type: ignore[attr-defined]
    with pytest.raises(LimitError, match="smaller context_length"):
        numpy_engine.embed(["x"])


def test_a_long_text_is_an_error_unless_it_may_be_cut(numpy_engine: Engine) -> None:
    long = "12 eggs " * 400
    with pytest.raises(TextTooLongError, match=r"text 1 has .* takes 256") as raised:
        numpy_engine.embed(["x", long])
    assert (raised.value.index, raised.value.limit) == (1, 256)
    assert f"has {raised.value.tokens} tokens" in str(raised.value)
    with pytest.raises(TextTooLongError, match=r"text 2 has at least \d+ tokens .* takes 256"):
        numpy_engine.embed(["x", "y", "12 eggs " * 40_000])
    cut = numpy_engine.embed(["x", long], overflow="truncate")
    assert cut.truncated == (1,)
    assert cut.tokens[1] == 256


def test_a_cut_text_keeps_its_end_token(numpy_engine: Engine) -> None:
    """What is cut is the text: the vector is that of a text which just fills the model's tokens."""
    words = list(itertools.accumulate(" salt" for _ in range(300)))
    fits = [text for text in words if numpy_engine.count_tokens(text, "document") <= 256][-1]
    if numpy_engine.count_tokens(fits, "document") == 256:
        cut = numpy_engine.embed([fits + " salt" * 50], overflow="truncate").vectors
        assert np.allclose(cut, numpy_engine.embed([fits]).vectors, atol=1e-5)
    else:
        pytest.fail("expected one of the texts to fill the 256 tokens exactly")


def test_small_types_hold_the_same_direction(numpy_engine: Engine) -> None:
    vectors = numpy_engine.embed(TEXTS).vectors
    whole = numpy_engine.embed(TEXTS, output_dtype="int8").vectors
    assert whole.dtype == np.int8
    assert np.abs(whole / 127 - vectors).max() <= 0.5 / 127 + 1e-6
    bits = numpy_engine.embed(TEXTS, output_dtype="binary").vectors
    assert bits.shape == (len(TEXTS), 8)
    assert np.array_equal(np.unpackbits(bits, axis=1).astype(bool), vectors > 0)


def test_a_vector_that_is_not_finite_is_an_error_of_its_request_alone(
    numpy_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = numpy_engine._driver._executor.run  # type: ignore[attr-defined]

    def poisoned(phase: str, rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
        vectors = run(phase, rows, slots)
        vectors[-1] = np.nan
        return vectors

    monkeypatch.setattr(numpy_engine._driver._executor, "run", poisoned)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="text 1 is not finite"):
        numpy_engine.embed(["a", "b"])
    monkeypatch.undo()
    assert np.isfinite(numpy_engine.embed(["a", "b"]).vectors).all()


def test_more_texts_than_a_step_takes_run_in_several(numpy_engine: Engine) -> None:
    texts = [f"{number} eggs" for number in range(700)]
    vectors = numpy_engine.embed(texts).vectors
    assert np.allclose(
        vectors[[0, 350, 699]], numpy_engine.embed([texts[0], texts[350], texts[699]]).vectors, atol=1e-5
    )


def test_a_lower_context_length_is_the_bound(tiny_artifact: Path) -> None:
    with open_engine(tiny_artifact, EngineSettings(device="numpy", context_length=32)) as short:
        assert short.capabilities.context_length == 32
        with pytest.raises(TextTooLongError, match="takes 32"):
            short.embed(["eggs " * 40])
    with pytest.raises(SettingsError, match="256"):
        open_engine(tiny_artifact, EngineSettings(device="numpy", context_length=1000))


def test_engines_of_equal_settings_are_shared_and_the_last_close_closes(tiny_artifact: Path) -> None:
    settings = EngineSettings(device="numpy", context_length=64)
    first, second = open_engine(tiny_artifact, settings), open_engine(tiny_artifact, settings)
    assert first._driver is second._driver
    first.close()
    with pytest.raises(EngineClosedError):
        first.embed(["x"])
    assert second.embed(["x"]).vectors.shape == (1, 64)
    second.close()
