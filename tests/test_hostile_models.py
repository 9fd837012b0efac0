"""Models whose files were made or changed to do harm, through the whole path: convert, open, embed.

Whatever the files say, there is an error of ours or there are finite vectors; nothing hangs, nothing is left behind.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from doppler_core.engine import memory
from doppler_core.errors import ContradictionError, DopplerError, FileFormatError, ManifestError, PlanError
from doppler_core.settings import EngineSettings
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.opening import open_engine
from doppler_plugins.sharing import open_count

ODD = (
    None, True, False, -1, 0, 1, 2, 3, 7, 10**5, 2**31, 2**53, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, 1e-320, "", "64",
    "\ud800", "x" * 5000, "../../x", [], [1], ["a"], {}, {"a": 1}, [[[]]],
)  # fmt: skip
# Every file a checkpoint says something in, the weights' apart (tests/test_weights_safetensors.py).
FILES = (
    "config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
)
# Finite or refused: numbers that overflow on the way are told by the vectors, not by NumPy's warnings.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*path, key)
        yield from places(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The JSON value with one value in it replaced, or taken out where `new` is `...`."""
    copy = json.loads(json.dumps(value))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    if new is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return copy


def embeds_or_explains(folder: Path, settings: EngineSettings) -> None:
    try:
        with open_engine(folder, settings) as engine:
            vectors = engine.embed(["some text", ""], overflow="truncate").vectors
    except DopplerError as error:
        assert str(error)  # noqa: PT017
    else:
        assert np.isfinite(vectors).all()
    assert open_count() == 0
    assert not memory._reserved


@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_checkpoint_with_any_value_changed_embeds_or_explains(
    tiny_checkpoint: Path, tmp_path: Path, data: st.DataObject
) -> None:
    folder, cache = tmp_path / "hostile", tmp_path / "cache"
    for path in (folder, cache):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(tiny_checkpoint, folder)
    file = folder / data.draw(st.sampled_from(FILES))
    value = json.loads(file.read_text())
    # A vocabulary has thousands of places that are all the same.
    few = [path for path in places(value) if len(path) < 3 or path[0] != "model"]
    file.write_text(
        json.dumps(changed(value, data.draw(st.sampled_from(few)), data.draw(st.sampled_from((*ODD, ...)))))
    )
    embeds_or_explains(folder, EngineSettings(device="numpy", precision="f32", cache_dir=str(cache)))
    assert not [path for path in cache.glob(".*") if path.name != ".verified"]


@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_artifact_with_any_value_of_its_manifest_changed_embeds_or_explains(
    tiny_artifact: Path, tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "hostile"
    if not folder.exists():
        shutil.copytree(tiny_artifact, folder)
    value = json.loads((tiny_artifact / "manifest.json").read_text())
    path = data.draw(st.sampled_from(list(places(value))))
    (folder / "manifest.json").write_text(
        json.dumps(changed(value, path, data.draw(st.sampled_from((*ODD, ...)))))
    )
    embeds_or_explains(folder, EngineSettings(device="numpy"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("file", "change", "error", "says"),
    [
        ("config.json", {"architectures": 5}, FileFormatError, "architectures: expected a list of names"),
        ("config.json", {"architectures": "Gemma3TextModel"}, FileFormatError, "expected a list of names"),
        ("config.json", {"intermediate_size": 97}, PlanError, "expected 97 outputs .*intermediateSize"),
        ("config.json", {"vocab_size": 511}, PlanError, r"embed_tokens.*expected shape \[511, 64\]"),
        ("config.json", {"head_dim": 0}, ManifestError, "headDim"),
        ("config.json", {"num_hidden_layers": 3}, ManifestError, "one entry per layer, 3, found 4"),
        ("tokenizer.json", {"post_processor": None}, ContradictionError, "tokenizer.json: it puts 0 tokens"),
    ],
)
def test_files_that_are_not_of_one_model_are_refused(
    tiny_checkpoint: Path,
    tmp_path: Path,
    file: str,
    change: dict[str, Any],
    error: type[DopplerError],
    says: str,
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "mixed"))
    edit(folder / file, lambda value: value.update(change))
    with pytest.raises(error, match=says) as caught:
        open_engine(
            folder, EngineSettings(device="numpy", precision="f32", cache_dir=str(tmp_path / "cache"))
        )
    assert str(tmp_path) in str(caught.value)
    assert open_count() == 0


@pytest.mark.parametrize("change", [{"intermediate_size": 97}, {"vocab_size": 511}])
def test_nothing_is_written_of_a_checkpoint_that_no_plan_fits(
    tiny_checkpoint: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "mixed"))
    edit(folder / "config.json", lambda value: value.update(change))
    settings = EngineSettings()
    stages: list[str] = []
    found = resolve_checkpoint(folder, settings)
    with pytest.raises(PlanError, match=re.escape(str(folder))):
        convert_checkpoint(found, settings, tmp_path / "out", progress=lambda stage, *_: stages.append(stage))
    assert ([path.name for path in tmp_path.iterdir()], stages) == (["mixed"], [])


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_positions_that_no_text_reaches_take_no_memory(
    tiny_checkpoint: Path, tmp_path: Path, device: str
) -> None:
    """The table of positions for 2^31 of them would take a terabyte; texts end at 256 tokens."""
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "long"))
    edit(folder / "config.json", lambda value: value.update(max_position_embeddings=2**31))
    settings = EngineSettings(device=device, precision="f32", cache_dir=str(tmp_path / "cache"))
    with open_engine(folder, settings) as engine:
        assert engine.memory_bytes < 100e6
        assert np.isfinite(engine.embed(["eggs " * 400], overflow="truncate").vectors).all()


@pytest.mark.parametrize("quantization", [None, 5, "f32", ["f32"]])
def test_a_manifest_without_its_sections_is_refused(
    tiny_artifact: Path, tmp_path: Path, quantization: object
) -> None:
    folder = Path(shutil.copytree(tiny_artifact, tmp_path / "changed"))
    edit(folder / "manifest.json", lambda value: value.update(quantization=quantization))
    with pytest.raises(FileFormatError, match=r"manifest\.json.*quantization"):
        open_engine(folder, EngineSettings(device="numpy"))


def test_a_manifest_that_names_no_lengths_is_refused(tiny_artifact: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_artifact, tmp_path / "changed"))
    edit(folder / "manifest.json", lambda value: value.pop("text"))
    with pytest.raises(ManifestError, match=r"text\.dimensions"):
        open_engine(folder, EngineSettings(device="numpy"))
