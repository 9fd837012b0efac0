"""One generation: what its deltas hold, what ends it, and that the deltas together are the result."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.choice import Choice
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import Delta
from doppler_core.errors import DeviceError
from doppler_core.text.tokenizer import Tokenizer
from tests.causal_fakes import BEGIN, END, FIRST_BYTE, FIRST_WORD, VOCABULARY, write_tokenizer

HELLO = [FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2]  # " w0 w1 w2"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"), VOCABULARY)


def job(
    tokenizer: Tokenizer,
    limit: int = 100,
    ends: Sequence[int] = (END,),
    stops: Sequence[str] = (),
    logprobs: int | None = None,
) -> GenerateJob:
    ending = Ending(limit, frozenset(ends), tuple(stops))
    return GenerateJob([BEGIN, 5], Choice(), ending, logprobs, ReplyReader(tokenizer), 0.0)


def feed(one: GenerateJob, tokens: Sequence[int]) -> list[Delta]:
    for token in tokens:
        one.accept(token)
    return list(one.news())


def ids_of(text: str) -> list[int]:
    return [FIRST_BYTE + byte for byte in text.encode()]


def test_an_end_token_ends_the_text_and_is_not_part_of_it(tokenizer: Tokenizer) -> None:
    one = job(tokenizer, ends=(END, FIRST_WORD + 5))
    deltas = feed(one, [*HELLO, FIRST_WORD + 5, FIRST_WORD + 6])
    assert [delta.text for delta in deltas] == [" w0", " w1", " w2", ""]
    result = one.result()
    assert (result.text, list(result.ids), result.finish_reason, result.stop) == (
        " w0 w1 w2",
        HELLO,
        "stop",
        FIRST_WORD + 5,
    )
    assert result.usage.completion_tokens == 3


def test_only_the_last_delta_says_why_and_how_much(tokenizer: Tokenizer) -> None:
    deltas = feed(job(tokenizer, limit=3), HELLO)
    assert [delta.finish_reason for delta in deltas] == [None, None, "length"]
    assert (
        [delta.usage is None for delta in deltas]
        == [delta.timings is None for delta in deltas]
        == [True, True, False]
    )


def test_a_stop_string_across_tokens_is_cut_out_and_its_tokens_are_told(tokenizer: Tokenizer) -> None:
    one = job(tokenizer, stops=("1 w2",))
    deltas = feed(one, [*HELLO, FIRST_WORD])
    assert [(delta.text, delta.ids) for delta in deltas] == [
        (" w0", (HELLO[0],)),
        (" w", (HELLO[1],)),
        ("", (HELLO[2],)),
    ]
    result = one.result()
    assert (result.text, result.stop, result.finish_reason) == (" w0 w", "1 w2", "stop")
    assert list(result.ids) == HELLO


def test_what_was_held_back_comes_at_the_end(tokenizer: Tokenizer) -> None:
    begun = [FIRST_WORD, *ids_of("🚂")[:3]]
    for ending, reason in (([END], "stop"), ([], "cancelled")):
        one = job(tokenizer, stops=("0...",))
        feed(one, [*begun, *ending])
        one.cancel()
        assert (one.result().text, one.result().finish_reason) == (" w0\ufffd", reason)
        assert list(one.result().ids) == begun


def test_a_token_that_shows_nothing_yet_is_told_with_the_text_it_belongs_to(tokenizer: Tokenizer) -> None:
    train = ids_of("🚂")
    deltas = feed(job(tokenizer), [*train, FIRST_WORD])
    assert [(delta.text, delta.ids) for delta in deltas] == [("🚂", tuple(train)), (" w0", (FIRST_WORD,))]


def test_tokens_after_the_end_are_dropped(tokenizer: Tokenizer) -> None:
    one = job(tokenizer, limit=2)
    feed(one, HELLO)
    one.cancel()
    assert (list(one.result().ids), one.result().finish_reason) == (HELLO[:2], "length")
    assert feed(one, HELLO) == []


def test_a_job_that_failed_raises_what_it_failed_of(tokenizer: Tokenizer) -> None:
    one = job(tokenizer)
    feed(one, HELLO)
    one.fail(DeviceError("broken"))
    assert one.done()
    assert feed(one, HELLO) == []
    with pytest.raises(DeviceError, match="broken"):
        one.result()


def test_log_probabilities_go_with_their_tokens(tokenizer: Tokenizer) -> None:
    words = np.zeros(42, np.uint32)
    words.view(np.float32)[[0, 3, 5]] = -1.5, -0.5, -2.0
    words[2], words[4] = 9, 10
    one = job(tokenizer, limit=2, logprobs=2)
    one.accept(7, words)
    one.accept(8, words)
    assert [(found.id, found.logprob, found.top) for found in one.result().logprobs] == [
        (7, -1.5, ((9, -0.5), (10, -2.0))),
        (8, -1.5, ((9, -0.5), (10, -2.0))),
    ]
    assert sum(len(delta.logprobs) for delta in one.news()) == 2
    unasked = job(tokenizer, limit=1)
    unasked.accept(7, words)
    assert unasked.result().logprobs == ()


def test_times_add_up(tokenizer: Tokenizer) -> None:
    one = job(tokenizer, limit=3)
    one.place(cached=1)
    feed(one, HELLO)
    result = one.result()
    times = result.timings
    assert times.queue + times.prefill == pytest.approx(times.first_token)
    assert times.tokens_per_second == pytest.approx(2 / times.decode)
    assert (result.usage.prompt_tokens, result.usage.cached_tokens) == (2, 1)


@given(
    tokens=st.lists(st.integers(0, VOCABULARY - 1), max_size=30),
    stops=st.lists(st.sampled_from([" w", "w1", "1 w2", "\n", "é", "a\ufffd", "\ufffd"]), max_size=3),
    limit=st.integers(1, 30),
)
def test_deltas_are_the_result_in_pieces(
    tokenizer: Tokenizer, tokens: list[int], stops: list[str], limit: int
) -> None:
    one = job(tokenizer, limit, stops=stops)
    deltas = feed(one, tokens)
    one.cancel()
    deltas += one.news()
    result = one.result()
    assert "".join(delta.text for delta in deltas) == result.text
    assert (
        tuple(token for delta in deltas for token in delta.ids)
        == result.ids
        == tuple(tokens[: len(result.ids)])
    )
    assert not any(stop in result.text for stop in stops)
    whole = b"".join(map(tokenizer.piece, result.ids)).decode("utf-8", "replace")
    assert whole.startswith(result.text)
    assert whole == result.text or result.stop in stops
    assert [delta.stop for delta in deltas if delta.stop is not None] == [result.stop] * (
        result.stop in stops
    )
    assert [delta.finish_reason for delta in deltas] == [None] * (len(deltas) - 1) + [result.finish_reason]
    assert all(delta.text for delta in deltas[:-1])


def test_the_end_of_a_half_character_may_be_a_stop_string(tokenizer: Tokenizer) -> None:
    one = job(tokenizer, stops=("\ufffd",))
    feed(one, [*HELLO, *ids_of("🚂")[:3], END])
    assert (one.result().text, one.result().stop) == (" w0 w1 w2", "\ufffd")


def test_random_bytes_never_break_a_text(tokenizer: Tokenizer) -> None:
    numbers = random.Random(1)
    tokens = [FIRST_BYTE + numbers.randrange(256) for _ in range(500)]
    one = job(tokenizer, limit=500)
    deltas = feed(one, tokens)
    assert "".join(delta.text for delta in deltas) == bytes(token - FIRST_BYTE for token in tokens).decode(
        "utf-8", "replace"
    )
