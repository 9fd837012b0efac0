"""What a request to generate may ask: wrong fields are named, defaults come from the checkpoint, prompts fit."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.choice import Defaults, choose, read_defaults
from doppler_core.engine.generate_check import check_generate_request, stop_strings
from doppler_core.engine.pace import Pace
from doppler_core.engine.prompt_room import PromptRoom
from doppler_core.engine.request import EmbedRequest, GenerateRequest
from doppler_core.engine.step_parts import deal
from doppler_core.errors import FileFormatError, InputError, TextTooLongError

BEGIN = 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"prompt": None}, "prompt is NoneType"),
        ({"prompt": b"x"}, "prompt is bytes"),
        ({"prompt": bytearray(b"x")}, "prompt is bytearray"),
        ({"prompt": memoryview(b"x")}, "prompt is memoryview"),
        ({"prompt": 5}, "prompt is int"),
        ({"prompt": {"role": "user"}}, "prompt is dict"),
        ({"prompt": ()}, "prompt is empty"),
        ({"prompt": (1, -1)}, "prompt 1 is -1"),
        ({"prompt": (1, 2.0)}, "prompt 1 is 2.0"),
        ({"prompt": (1, True)}, "prompt 1 is True"),
        ({"prompt": ({"role": "user"}, 5)}, "prompt 0 is"),
        ({"prompt": (1, 300)}, "prompt 1 is 300: expected a token id, 0 to 299"),
        ({"chat_format": 5}, "chat_format is int"),
        ({"temperature": -1}, "temperature=-1"),
        ({"logit_bias": {300: 1.0}}, "logit_bias of 300"),
        ({"max_tokens": -1}, "max_tokens=-1: expected 0 or more, or None"),
        ({"max_tokens": 1.5}, "max_tokens is float"),
        ({"max_tokens": True}, "max_tokens is bool"),
        ({"logprobs": 21}, "logprobs=21: expected 0 to 20"),
        ({"logprobs": -1}, "logprobs=-1"),
        ({"stop": 5}, "stop is int"),
        ({"stop": ""}, "stop 0 is ''"),
        ({"stop": ("a", "")}, "stop 1 is ''"),
        ({"stop": ("a", 3)}, "stop 1 is 3"),
        ({"stop_ids": 3}, "stop_ids is int"),
        ({"stop_ids": "3"}, "stop_ids is str"),
        ({"stop_ids": b"3"}, "stop_ids is bytes"),
        ({"stop_ids": (3, "x")}, "stop_ids 1 is 'x'"),
        ({"stop_ids": (300,)}, "stop_ids 0 is 300"),
        ({"mask": 1}, "mask is int"),
        ({"ignore_eos": 1}, "ignore_eos is int"),
        ({"steps": 0}, "steps=0: expected 1 or more, or None"),
        ({"steps": 1.5}, "steps is float"),
        ({"drafts": 1}, "drafts is int: expected True or False"),
        ({"noise": 1}, "noise is int: expected a CanvasNoise"),
        ({"overflow": "truncate"}, "overflow='truncate': expected 'error' or 'truncate_left'"),
    ],
)
def test_a_field_that_is_not_what_it_has_to_be_is_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_generate_request(GenerateRequest(**{"prompt": "x", **fields}), 300)


@pytest.mark.parametrize("request_", [None, "eggs", EmbedRequest(("eggs",))])
def test_what_is_no_request_is_refused(request_: Any) -> None:
    with pytest.raises(InputError, match="expected a GenerateRequest"):
        check_generate_request(request_, 300)


def test_odd_but_right_types_are_taken() -> None:
    for fields in (
        {"prompt": [np.int64(3), 4]},
        {"prompt": [{"role": "user", "content": "x"}]},
        {"max_tokens": np.int32(3), "logprobs": 0, "stop": ["a"], "stop_ids": [np.uint8(1)]},
    ):
        check_generate_request(GenerateRequest(**{"prompt": "x", **fields}), 300)  # type: ignore[arg-type]
    assert stop_strings(GenerateRequest("x", stop="ab")) == ("ab",)


def config(tmp_path: Path, **fields: Any) -> Path:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(fields))
    return path


def test_the_checkpoint_says_how_to_choose_where_the_request_does_not(tmp_path: Path) -> None:
    said = read_defaults(config(tmp_path, do_sample=True, top_k=64, top_p=0.95, eos_token_id=[1, 106]))
    assert said == Defaults((1, 106), temperature=1.0, top_k=64, top_p=0.95)
    sampling = choose(GenerateRequest("x", top_k=0, seed=7), said).sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (1.0, 0, 0.95, 7)
    assert choose(GenerateRequest("x", temperature=0), said).sampling.greedy


def test_a_checkpoint_that_does_not_sample_or_says_nothing_means_the_likeliest_token(tmp_path: Path) -> None:
    assert read_defaults(None) == Defaults()
    assert read_defaults(config(tmp_path, temperature=0.7, eos_token_id=1)) == Defaults((1,))
    assert choose(GenerateRequest("x"), Defaults()).sampling.greedy


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"top_k": "64"}, "top_k is str '64'"),
        ({"top_p": -1}, "top_p=-1"),
        ({"do_sample": True, "temperature": -1}, "temperature=-1"),
        ({"repetition_penalty": True}, "repetition_penalty is bool"),
        ({"eos_token_id": [1, "2"]}, "eos_token_id is"),
        ({"eos_token_id": -1}, "eos_token_id is -1"),
        ({"eos_token_id": True}, "eos_token_id is True"),
        ({"do_sample": True, "temperature": 10**400}, "temperature=1000"),
    ],
)
def test_a_generation_config_that_is_wrong_is_named(
    tmp_path: Path, fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(FileFormatError, match=says):
        read_defaults(config(tmp_path, **fields))


def test_seeds_are_taken_as_64_bits_and_none_is_another_each_time() -> None:
    assert choose(GenerateRequest("x", seed=-1), Defaults()).sampling.seed == 2**64 - 1
    assert choose(GenerateRequest("x", seed=2**64 - 3), Defaults()).sampling.seed == 2**64 - 3
    seeds = {choose(GenerateRequest("x"), Defaults()).sampling.seed for _ in range(8)}
    assert len(seeds) == 8


def test_no_seed_is_another_seed_in_each_process() -> None:
    """A default that is called random and is the same after each start."""
    program = (
        "from doppler_core.engine.choice import Defaults, choose\n"
        "from doppler_core.engine.request import GenerateRequest\n"
        "print(choose(GenerateRequest('x'), Defaults()).sampling.seed)"
    )
    seeds = {subprocess.check_output([sys.executable, "-c", program], text=True) for _ in range(2)}
    assert len(seeds) == 2


def test_a_bias_is_taken_from_numbers_of_any_kind() -> None:
    choice = choose(GenerateRequest("x", logit_bias={np.int64(3): np.float32(1.5)}), Defaults())  # type: ignore[dict-item]
    assert choice.bias == {3: 1.5}
    assert choice.sampling.biased


@given(
    length=st.integers(1, 60),
    asked=st.none() | st.integers(0, 80),
    context=st.integers(2, 40),
    begins=st.booleans(),
)
def test_prompt_and_answer_fit_the_context(
    length: int, asked: int | None, context: int, begins: bool
) -> None:
    ids, room = [BEGIN if begins else 9, *range(100, 99 + length)], PromptRoom(context, BEGIN)
    if length > context:
        with pytest.raises(TextTooLongError) as raised:
            room.fit(ids, asked, "error")
        assert (raised.value.tokens, raised.value.limit) == (length, context)
    kept, limit = room.fit(ids, asked, "truncate_left")
    assert 0 < len(kept) <= context
    assert limit == context - len(kept) if asked is None else limit == min(asked, context - len(kept))
    if length <= context:
        assert list(kept) == ids
        return
    assert limit >= min(context // 2, context // 4 if asked is None else asked)
    assert len(kept) >= context - context // 2
    assert kept[0] == BEGIN if begins else list(kept) == ids[-len(kept) :]
    assert list(kept[1:]) == ids[len(ids) - len(kept) + 1 :]


@given(wanted=st.lists(st.integers(1, 50), min_size=1, max_size=8), rows=st.integers(0, 100))
def test_rows_are_dealt_evenly_and_none_is_left_that_somebody_wants(wanted: list[int], rows: int) -> None:
    shares = deal(wanted, rows)
    assert sum(shares) == min(rows, sum(wanted))
    assert all(share <= want for share, want in zip(shares, wanted, strict=True))
    short = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    # Who gets less than it wants gets as much as anybody, but for what does not divide.
    assert not short or max(shares) - min(short) <= 1


def test_a_group_takes_at_most_its_fifty_milliseconds() -> None:
    pace = Pace(64)
    assert pace.steps() == 1
    pace.note_steps(1, 0.010)
    assert pace.steps() == 5
    for _ in range(20):
        pace.note_steps(5, 0.005)
    assert pace.steps() in (49, 50)
    for _ in range(20):
        pace.note_steps(1, 0.2)
    assert pace.steps() == 1
    fast = Pace(64)
    fast.note_steps(10, 0.0)
    assert fast.steps() == 64


def test_prompts_are_slowed_down_only_while_others_wait_for_a_token() -> None:
    pace = Pace(8)
    assert pace.rows(256, others_wait=False) == 256
    assert pace.rows(256, others_wait=True) == 64
    pace.note_rows(100, 0.5)
    assert pace.rows(256, others_wait=True) == 40
    pace.note_rows(2, 10.0)  # too few rows to say what a row takes
    assert pace.rows(256, others_wait=True) == 40
    pace.note_rows(50, 50.0)
    assert pace.rows(256, others_wait=True) == 16
    assert pace.rows(5, others_wait=True) == 5


def test_where_every_step_takes_long_prompts_take_more_rows_and_not_fewer() -> None:
    """A step of n rows takes 1 s + n * 10 ms: with few rows a prompt would take for ever, and others no less."""
    pace, rows = Pace(8), 16
    pace.note_steps(1, 1.0)
    for _ in range(40):
        pace.note_rows(rows, 1.0 + 0.01 * rows)
        rows = pace.rows(1000, others_wait=True)
    assert rows == pytest.approx(300, rel=0.05)
