"""Strict JSON: all that the standard allows is read as Python reads it, and nothing else is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.strict_json import strict_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.booleans())
def test_a_value_is_read_as_it_was_written(value: Any, escaped: bool) -> None:
    assert strict_json(json.dumps(value, ensure_ascii=escaped), 40) == value


@given(st.lists(st.sampled_from("[{"), min_size=1, max_size=60), st.integers(1, 50), st.booleans())
def test_lists_and_objects_are_as_deep_as_is_allowed_and_no_deeper(
    opened: list[str], deepest: int, filled: bool
) -> None:
    begin = "".join(mark if mark == "[" else '{"a":' for mark in opened[:-1]) + opened[-1]
    inside = "" if not filled else "1" if opened[-1] == "[" else '"a":1'
    text = begin + inside + "".join("]" if mark == "[" else "}" for mark in reversed(opened))
    if len(opened) <= deepest:
        assert strict_json(text, deepest) == json.loads(text)
    else:
        with pytest.raises(ValueError, match=f"nested too deep; expected at most {deepest} levels"):
            strict_json(text, deepest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON at line 1, column 1"),
        ('{"a": 1,\n}', "not JSON at line 2, column 1"),
        ('[{"a": 1, "b": 2, "a": 1}]', 'the key "a" stands twice'),
        ("[NaN]", "NaN is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1e999", "1e999 is not a JSON number"),
        ("9" * 5000, "too many digits"),
        (r'["\ud800"]', "half of a surrogate pair"),
        (r'{"\udc00\ud83e": 1}', "half of a surrogate pair"),
        ('["\ud800"]', "half of a surrogate pair"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_json_is_refused_in_words_that_stay_short(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        strict_json(text, 40)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", [f'{{"{"k" * 10**6}": 1, "{"k" * 10**6}": 2}}', f"1{'0' * 10**6}.5"])
def test_a_huge_key_or_number_does_not_fill_the_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"stands twice|is not a JSON number") as caught:
        strict_json(text, 40)
    assert len(str(caught.value)) < 300
