"""Where `convert` writes: what was there before, what stands in the way, other processes at the same place."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doppler_core.errors import FileFormatError, ModelNotFoundError, SettingsError
from doppler_core.weights.artifact import open_artifact, verify
from doppler_core.weights.checkpoint import Checkpoint, read_checkpoint
from doppler_core.weights.convert import Conversion, convert
from doppler_core.weights.staging import is_staging
from tests.weights_files import write_checkpoint

ROOT = Path(__file__).parents[1]
QUANTIZATION = {"weights": "q4k", "embeddings": "f16"}
MANIFEST = {"quantization": QUANTIZATION}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return read_checkpoint(write_checkpoint(tmp_path / "checkpoint"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def left_over(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if is_staging(path)]


def test_an_artifact_is_kept_or_replaced_only_when_told(checkpoint: Checkpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(checkpoint, MANIFEST, out)
    before = contents(out)
    with pytest.raises(SettingsError, match="there is an artifact already"):
        convert(checkpoint, MANIFEST, out)
    other = {"quantization": QUANTIZATION | {"weights": "f16"}}
    assert convert(checkpoint, other, out, existing="keep").kept
    assert contents(out) == before
    assert not convert(checkpoint, other, out, existing="replace").kept
    assert open_artifact(out).manifest == other
    assert not left_over(tmp_path)


def test_an_artifact_that_is_kept_needs_no_lock(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(checkpoint, MANIFEST, tmp_path / "out")
    monkeypatch.setattr(os, "mkdir", lambda *_: pytest.fail("wrote beside the artifact"))
    assert convert(checkpoint, MANIFEST, tmp_path / "out", existing="keep").kept


def test_a_failed_replacement_leaves_the_old_artifact(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    convert(checkpoint, MANIFEST, out)
    before = contents(out)
    rename = Path.rename

    def fail_the_second(path: Path, target: Path) -> Path:
        if path.name == "content":
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_the_second)
    with pytest.raises(SettingsError, match="Input/output"):
        convert(checkpoint, MANIFEST, out, existing="replace")
    assert contents(out) == before
    assert not left_over(tmp_path)


@pytest.mark.parametrize("existing", ["error", "keep", "replace"])
def test_a_folder_of_something_else_is_never_touched(
    checkpoint: Checkpoint, tmp_path: Path, existing: Any
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    convert(checkpoint, MANIFEST, out)  # an empty folder is as good as none
    other = tmp_path / "other"
    other.mkdir()
    (other / "letters.txt").write_text("dear")
    for path in (other, other / "letters.txt"):
        with pytest.raises(SettingsError, match="exists and is no artifact"):
            convert(checkpoint, MANIFEST, path, existing=existing)
    assert contents(other) == {"letters.txt": b"dear"}


@pytest.mark.parametrize("target", ["absent", "empty", "artifact"])
def test_a_link_is_followed_and_stays(checkpoint: Checkpoint, tmp_path: Path, target: str) -> None:
    place, link = tmp_path / "elsewhere" / "place", tmp_path / "link"
    place.parent.mkdir()
    link.symlink_to(place)
    if target == "empty":
        place.mkdir()
    if target == "artifact":
        convert(checkpoint, MANIFEST, place)
    convert(checkpoint, MANIFEST, link, existing="replace")
    assert link.is_symlink()
    verify(link)
    assert sorted(path.name for path in place.parent.iterdir()) == ["place"]
    assert not left_over(tmp_path)


def block_with_a_file(staging: Path) -> None:
    staging.write_text("")


def block_with_a_dangling_link(staging: Path) -> None:
    staging.symlink_to(staging.with_name("nowhere"))


def block_with_a_pipe(staging: Path) -> None:
    os.mkfifo(staging)


@pytest.mark.parametrize("block", [block_with_a_file, block_with_a_dangling_link, block_with_a_pipe])
def test_what_stands_in_the_way_of_the_staging_folder_is_an_error_and_no_wait(
    checkpoint: Checkpoint, tmp_path: Path, block: Callable[[Path], None]
) -> None:
    block(tmp_path / ".out.staging")
    with pytest.raises(SettingsError, match=r"\.out\.staging"):
        convert(checkpoint, MANIFEST, tmp_path / "out")


def test_a_file_system_that_makes_no_folders_is_an_error_and_no_wait(checkpoint: Checkpoint) -> None:
    """In /proc a new folder is answered with "no such file", as is one whose parent was just removed."""
    with pytest.raises(SettingsError, match="can't be written"):
        convert(checkpoint, MANIFEST, Path("/proc/doppler-plugins-test"))


# --- other processes -----------------------------------------------------------------------------------------------

SLOW = """
import sys, time
from doppler_core.weights.checkpoint import read_checkpoint
from doppler_core.weights.convert import convert
def slow(stage, done, total):
    print(done, flush=True)
    time.sleep(0.05)
checkpoint = read_checkpoint(sys.argv[1])
convert(checkpoint, {"quantization": {"weights": "q4k", "embeddings": "f16"}}, sys.argv[2], progress=slow)
"""


def start_slow(checkpoint: Path, out: Path, tensors: int) -> "subprocess.Popen[str]":
    """A conversion in another process that has written `tensors` tensors and goes on slowly."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "core")}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(checkpoint), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    for _ in range(tensors):
        assert process.stdout.readline()
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("tensors", [1, 5, 12])
def test_a_killed_run_leaves_nothing_that_opens_and_the_next_one_clears_it(
    checkpoint: Checkpoint, tmp_path: Path, tensors: int
) -> None:
    out = tmp_path / "out"
    kill(start_slow(checkpoint.path, out, tensors))
    (staging,) = left_over(tmp_path)
    for folder in (out, staging, staging / "content"):
        with pytest.raises(ModelNotFoundError):
            open_artifact(folder)
    convert(checkpoint, MANIFEST, out)
    verify(out)
    assert not left_over(tmp_path)


def test_content_that_was_whole_but_never_moved_does_not_open(checkpoint: Checkpoint, tmp_path: Path) -> None:
    out = convert(checkpoint, MANIFEST, tmp_path / "out").path
    staging = tmp_path / ".out.staging"
    staging.mkdir()
    out.rename(staging / "content")
    with pytest.raises(FileFormatError, match="did not finish"):
        open_artifact(staging / "content")


def test_an_artifact_set_aside_by_a_run_that_died_comes_back(checkpoint: Checkpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(checkpoint, MANIFEST, out)
    before = contents(out)
    (tmp_path / ".out.staging").mkdir()
    out.rename(tmp_path / ".out.staging" / "replaced")
    assert convert(checkpoint, MANIFEST, out, existing="keep").kept
    assert contents(out) == before


def test_a_live_run_is_waited_for_and_its_result_kept(checkpoint: Checkpoint, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start_slow(checkpoint.path, out, 2)
    stages: list[str] = []
    done = convert(
        checkpoint, MANIFEST, out, existing="keep", progress=lambda stage, *_: stages.append(stage)
    )
    assert (done.kept, stages) == (True, ["waiting for another conversion"])
    process.communicate()
    assert process.returncode == 0
    verify(out)


def test_threads_that_want_the_same_artifact_make_it_once(checkpoint: Checkpoint, tmp_path: Path) -> None:
    done: list[Conversion] = []
    threads = [
        threading.Thread(
            target=lambda: done.append(convert(checkpoint, MANIFEST, tmp_path / "out", existing="keep"))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(conversion.kept for conversion in done) == [False] + [True] * 5
    verify(tmp_path / "out")
    assert not left_over(tmp_path)
