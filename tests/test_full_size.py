"""The benchmarks of models at their full size: random weights, the room they need, a run of a tiny model."""

import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from doppler_core.errors import LimitError
from doppler_core.settings import Progress
from doppler_core.weights import q4_k
from doppler_core.weights.artifact import open_artifact, verify
from doppler_core.weights.storage import to_f32

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import full_size_diffusion
import full_size_e2b
import random_weights
from diffusion_artifact import Model, artifact_bytes, full_size, tiny, write_artifact
from full_size import Room, Row, bytes_in, check_room, done, free_room

GATE_UP = "model.decoder.layers.{}.experts.gate_up_proj"
DOWN = "model.decoder.layers.{}.experts.down_proj"


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny()


@pytest.fixture(scope="module")
def artifact(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full_size") / "artifact"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_weights, "POOL_BLOCKS", 499)
        patch.setattr(random_weights, "POOL_VALUES", 262_139)
        write_artifact(model, folder)
    return folder


def test_the_full_size_is_the_publishers_stored_as_the_seed_says() -> None:
    model = full_size()
    assert len(model.shapes) == 1047
    assert model.shapes[GATE_UP.format(29)] == (128, 1408, 2816)
    # 23.2 billion values in 4.5 bits, rows padded to whole blocks, a table of 0.74 billion in 16.
    assert artifact_bytes(model) == pytest.approx(15.7e9, rel=2e-3)


def test_a_random_artifact_holds_what_a_conversion_does(model: Model, artifact: Path) -> None:
    verify(artifact)
    tensors = open_artifact(artifact).tensors
    text = {name: shape for name, shape in model.shapes.items() if "vision" not in name}
    assert {name: tensor.shape for name, tensor in tensors.items()} == text
    assert (
        Counter(tensor.dtype for tensor in tensors.values())["q4_k"] == 3 * (2 + 7) - 1 + 3
    )  # keys are values
    assert tensors["model.decoder.embed_tokens.weight"].dtype == "f16"
    assert tensors["model.decoder.layers.0.router.proj.weight"].dtype == "f16"
    assert sum(file.stat().st_size for file in artifact.glob("*.bin")) <= artifact_bytes(model)


@pytest.mark.parametrize("name", [GATE_UP, DOWN], ids=["whole blocks", "broken blocks"])
def test_random_experts_keep_the_size_of_what_they_multiply(name: str, artifact: Path) -> None:
    tensors = open_artifact(artifact).tensors
    first, second = (to_f32(tensors[name.format(layer)]) for layer in (0, 1))
    # 96 columns, the broken ones, are nearest to 2^-3.
    halvings = 4 if name == GATE_UP else 3
    # Hundreds of thousands of values out of 128,000, in steps of a fifteenth of their range.
    assert first.std() == pytest.approx(2.0**-halvings, rel=0.03)
    assert abs(first.mean()) < 0.02 * 2.0**-halvings
    assert not np.array_equal(first, second)


def test_a_rows_padding_is_nothing(artifact: Path) -> None:
    tensor = open_artifact(artifact).tensors[DOWN.format(2)]
    whole = np.empty((tensor.rows, q4_k.VALUES), np.float32)
    q4_k.dequantize(tensor.row_data(0, tensor.rows), whole)
    assert whole[:, : tensor.columns].any(1).all()
    assert not whole[:, tensor.columns :].any()


def test_room_that_is_there_is_enough() -> None:
    check_room(Path("x"), "it needs", Room(5, 7), Room(5, 7))
    check_room(Path("x"), "it needs", Room(5, 7), Room(5, None))


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (
            Room(2_000_000_000, 9),
            r"x: it needs 15\.7 GB of disk, and 2\.0 GB are free: make room, or .*--folder",
        ),
        (Room(16_000_000_000, 9_000_000_000), r"9\.0 GB of memory are free, and 14\.0 GB are the least: end"),
    ],
    ids=["disk", "memory"],
)
def test_short_room_is_refused_with_what_is_missing(free: Room, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        check_room(Path("x"), "it needs", Room(15_700_000_000, 14_000_000_000), free)


def test_room_is_that_of_the_disk_where_the_folder_will_be(tmp_path: Path) -> None:
    assert free_room(tmp_path / "not" / "yet").disk > 0
    assert bytes_in(tmp_path / "not" / "yet") == 0
    (tmp_path / "file").write_bytes(b"12345")
    assert bytes_in(tmp_path) == 5


@pytest.mark.parametrize("free", [Room(10**9, 10**11), Room(10**11, 10**9)], ids=["disk", "memory"])
def test_nothing_is_written_where_room_is_short(
    free: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_size_diffusion, "free_room", lambda folder: free)
    with pytest.raises(SystemExit, match="are free"):
        full_size_diffusion.main(["--folder", str(tmp_path / "new"), "--out", str(tmp_path / "out.json")])
    assert not list(tmp_path.iterdir())


def refused(progress: Progress | None) -> Row:
    raise LimitError("too little")


def test_a_step_that_memory_does_not_suffice_for_is_left_out_and_holds_no_bar() -> None:
    row = done(refused)
    assert row == {"left_out": "too little"}
    assert not any(bar.held for bar in full_size_diffusion.bars(row))


def test_the_steps_of_gemma_4_take_what_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound(step: Callable[..., Row], *arguments: object) -> Row:
        return dict(inspect.signature(step).bind(*arguments, None).arguments)

    monkeypatch.setattr(full_size_e2b, "done", bound)
    rows = dict(full_size_e2b.steps(tmp_path, ["numpy", "wgpu"]))
    assert list(rows) == ["write", "convert", "numpy", "wgpu", "numpy in 2.5 GB"]
    assert all(row["progress"] is None for row in rows.values())
    assert rows["wgpu"]["device"] == "wgpu"
    assert rows["numpy in 2.5 GB"]["limit"] == full_size_e2b.LITTLE


def test_a_tiny_run_reports_and_cleans_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "files", tmp_path / "figures.json"
    common = ["--tiny", "--folder", str(folder), "--out", str(out)]
    assert full_size_diffusion.main([*common, "--keep"]) == 0
    figures = json.loads(out.read_text())
    write, *runs = [row for name, row in figures.items() if name != "machine"]
    assert write["bytes"] == sum(file.stat().st_size for file in (folder / "artifact").glob("*.bin"))
    assert {(row["device"], row["prompt_tokens"], row["canvas_tokens"]) for row in runs} == {
        ("numpy", 128, 16)
    }
    assert all(0 < row["denoise_seconds"] < row["seconds"] for row in runs)
    # Of 700 tokens none is likelier than others by much.
    assert all(5 < row["entropy"] < np.log(700) for row in runs)
    assert "numpy in 13.5 GB: anonymous GB: " in capfd.readouterr().out

    assert full_size_diffusion.main(common) == 0  # goes on with the files, and leaves none
    again = json.loads(out.read_text())
    assert "write" not in again
    assert list(again) == [name for name in figures if name != "write"]
    assert not (folder / "artifact").exists()
