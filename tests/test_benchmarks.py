"""The benchmarks' own parts: what they write, how they count, how a contestant and a step are run."""

import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from doppler_core.errors import LimitError
from doppler_core.weights.checkpoint import read_checkpoint
from doppler_core.weights.storage import to_f32

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import e2b_checkpoint
import random_weights
from contest import Contestant, Program, in_turn
from e2b import e2b_shapes
from figures import Bar, verdict
from generation import Prompts, decode_rate, same_begin
from measuring import measured

SMALL = {
    "model.language_model.embed_tokens.weight": (3000, 64),
    "model.language_model.layers.0.layer_scalar": (1,),
    "model.language_model.layers.0.self_attn.q_norm.weight": (16,),
    "model.language_model.norm.weight": (64,),
    "model.audio_tower.layers.0.feed_forward1.ffw_layer_1.input_min": (),
    "model.audio_tower.subsample_conv_projection.layer0.conv.weight": (8, 1, 3, 3),
}


@pytest.fixture
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_weights, "POOL_VALUES", 65_521)
    monkeypatch.setattr(e2b_checkpoint, "SHARD_BYTES", 300_000)


@pytest.mark.usefixtures("small_pool")
def test_a_random_checkpoint_reads_as_a_publishers(tmp_path: Path) -> None:
    written = e2b_checkpoint.write_checkpoint(tmp_path, SMALL)
    found = read_checkpoint(tmp_path)
    assert found.source_id == "google/gemma-4-E2B-it"
    assert {name: tensor.shape for name, tensor in found.tensors.items()} == SMALL
    assert {tensor.dtype for tensor in found.tensors.values()} == {"bf16"}
    assert len({tensor.path for tensor in found.tensors.values()}) == 2
    assert written == sum(tensor.data.nbytes for tensor in found.tensors.values())


@pytest.mark.usefixtures("small_pool")
def test_its_values_keep_the_size_of_what_they_multiply(tmp_path: Path) -> None:
    e2b_checkpoint.write_checkpoint(tmp_path, SMALL)
    tensors = {name: to_f32(tensor) for name, tensor in read_checkpoint(tmp_path).tensors.items()}
    table = tensors["model.language_model.embed_tokens.weight"]
    # 192,000 values: their deviation is known to 0.2 %.
    assert table.std() == pytest.approx(64**-0.5 / 2, rel=0.01)
    assert len(np.unique(table, axis=0)) == 3000
    assert (tensors["model.language_model.norm.weight"] == 1).all()
    assert (tensors["model.language_model.layers.0.self_attn.q_norm.weight"] == 0.5).all()
    assert tensors["model.audio_tower.layers.0.feed_forward1.ffw_layer_1.input_min"].item() == -64


def test_a_folder_is_whole_only_with_its_index(tmp_path: Path) -> None:
    assert not e2b_checkpoint.is_whole(tmp_path)
    (tmp_path / "model.safetensors.index.json").touch()
    assert e2b_checkpoint.is_whole(tmp_path)


def test_the_full_size_is_the_publishers() -> None:
    assert len(e2b_shapes()) == 1951
    assert e2b_checkpoint.checkpoint_bytes() == 2 * 5_104_298_467


def test_tokens_count_from_when_every_request_has_one() -> None:
    came = [[(1.0, 1), (2.0, 1), (4.0, 2)], [(2.0, 1), (3.0, 1), (4.5, 1), (5.0, 1)]]
    assert decode_rate(came) == pytest.approx((2 + 3) / 3)


def test_the_same_begin_ends_at_the_first_other_id() -> None:
    assert same_begin([1, 2, 3], [1, 2, 3]) == 3
    assert same_begin([1, 2, 3], [1, 9, 3]) == 1


def test_no_prompt_begins_like_another() -> None:
    prompts = Prompts([2, *range(1000, 8000)])
    taken = [prompts.take(128) for _ in range(200)]
    assert {len(prompt) for prompt in taken} == {128}
    assert {prompt[0] for prompt in taken} == {2}
    assert len({prompt[1] for prompt in taken}) == 200


def test_bars_say_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    least, most = Bar("speed", 2.0, 1.0), Bar("time", 2.0, 1.0, is_least=False)
    assert verdict("it", [least]) == 0
    assert verdict("it", [least, most]) == 1
    assert "time: 2, at most 1: MISSED" in capsys.readouterr().out


def test_runs_take_turns() -> None:
    order: list[str] = []

    def run(name: str, number: int) -> int:
        order.append(name)
        return number

    assert in_turn(3, lambda number: run("a", number), lambda number: run("b", number)) == [[0, 1, 2]] * 2
    assert "".join(order) == "ababab"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    script = tmp_path / "adders.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys
            sys.path.append({str(Path(e2b_checkpoint.__file__).parent)!r})
            from contestant import serve
            def adder(model):
                return {{
                    "add": lambda number: number + int(model),
                    "threads": lambda: os.environ["OMP_NUM_THREADS"],
                    "compiles": lambda: not sys.dont_write_bytecode,
                }}
            serve({{"adder": adder}})
            """
        )
    )
    return Program(str(script), sys.executable, threads=3)


def test_a_contestant_does_what_it_is_asked(program: Program) -> None:
    one = Contestant(program, "adder", "40")
    assert one.ask("add", number=2) == 42
    assert one.ask("threads") == "3"
    assert one.open_seconds < 10
    one.close()


def test_a_contestant_keeps_its_bytecode(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    one = Contestant(program, "adder", "1")
    assert one.ask("compiles")
    one.close()


def test_a_contestant_that_ends_says_why(program: Program) -> None:
    one = Contestant(program, "adder", "no number", label="the adder")
    with pytest.raises(SystemExit, match=r"the adder ended with code 1; .*\n[\s\S]*invalid literal"):
        one.ask("add", number=2)


def hold(count: int) -> int:
    return int(np.ones(count, np.uint8).sum()) and os.getpid()


def refuse() -> None:
    raise LimitError("too little")


def test_a_step_is_measured_in_a_process_of_its_own() -> None:
    step = measured(hold, 200_000_000)
    assert step.value != os.getpid()
    assert step.seconds > 0
    # The interpreter and NumPy take some tens of megabytes beside the 200 that are held.
    assert 200e6 < step.peak_bytes < 400e6


def test_a_step_raises_what_it_raised() -> None:
    with pytest.raises(LimitError, match="too little"):
        measured(refuse)
