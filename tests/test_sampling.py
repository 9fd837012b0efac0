"""A slot's settings as a line of the sampling table, and what a step asks for."""

import numpy as np
import pytest

from doppler_core.plan.sampling import Sampling, asked_for, pack, unpack

FULL = Sampling(
    temperature=0.7,
    top_k=64,
    top_p=0.95,
    min_p=0.05,
    presence=0.5,
    frequency=-0.25,
    repetition=1.1,
    seed=0x0123456789ABCDEF,
    biased=True,
    masked=True,
)


def test_the_words_of_a_line_are_where_the_kernels_read_them() -> None:
    line = pack([FULL])[0]
    numbers = line.view(np.float32)
    assert numbers[[0, 2, 3, 4, 5, 6]].tolist() == [np.float32(x) for x in (0.7, 0.95, 0.05, 0.5, -0.25, 1.1)]
    assert line[[1, 7, 8, 9]].tolist() == [64, 0x89ABCDEF, 0x01234567, 7]
    assert not line[10:].any()


def test_a_line_gives_the_settings_back_as_f32_has_them() -> None:
    halves = Sampling(temperature=0.5, top_k=3, top_p=0.75, presence=1.5, seed=9, masked=True)
    assert unpack(pack([FULL, halves])[1]) == halves
    assert unpack(pack([FULL])[0]).temperature == np.float32(0.7)


def test_the_defaults_are_greedy_and_switch_nothing_on() -> None:
    assert Sampling().greedy
    assert pack([Sampling()])[0, 9] == 0


def test_a_temperature_too_small_for_a_device_is_greedy() -> None:
    tiny = Sampling(temperature=1e-40)
    assert tiny.greedy
    assert pack([tiny])[0, 0] == 0
    assert not Sampling(temperature=1e-6).greedy


@pytest.mark.parametrize("change", [{"presence": 0.1}, {"frequency": 0.1}, {"repetition": 1.2}])
def test_a_penalty_needs_counts_and_the_adjusted_logits(change: dict[str, float]) -> None:
    assert asked_for([Sampling(**change)]) == {"draw", "count"}


def test_a_step_draws_where_one_slot_of_it_does() -> None:
    assert asked_for([Sampling()]) == {"greedy"}
    assert asked_for([Sampling(), Sampling(temperature=1.0)]) == {"draw"}
    assert asked_for([Sampling(), Sampling(masked=True)]) == {"draw"}
    assert asked_for([Sampling(biased=True)], logprobs=True) == {"draw", "logprobs"}


def test_a_top_k_no_word_holds_is_no_limit() -> None:
    assert pack([Sampling(top_k=10**30)])[0, 1] == 0xFFFFFFFF
