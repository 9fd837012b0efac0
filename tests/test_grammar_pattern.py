"""A pattern's whole-text form fits where the pattern is found, for any way to write it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.errors import InputError
from doppler_core.text.grammar.pattern import whole_pattern

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "[ab]",
        "[^a]",
        r"[^\d]",
        r"[\w-]",
        r"\d",
        r"\D",
        r"\S",
        ".",
        "(a|b)",
        "(?:ab|)",
        r"\|",
        "[|)]",
        r"[\]a]",
        r"\\",
    ]
)
PARTS = st.tuples(ATOMS, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}"])).map("".join)
BRANCHES = st.tuples(
    st.sampled_from(["", "^"]), st.lists(PARTS, max_size=3).map("".join), st.sampled_from(["", "$"])
).map("".join)
PATTERNS = st.lists(BRANCHES, min_size=1, max_size=3).map("|".join)


@given(PATTERNS, st.text("ab1|]\\ -", max_size=5))
def test_a_text_fits_the_whole_form_where_the_pattern_is_found_in_it(pattern: str, text: str) -> None:
    found = re.search(pattern, text) is not None
    assert (re.fullmatch(whole_pattern(pattern, "#"), text) is not None) == found


@pytest.mark.parametrize("pattern", ["(?<=a)b", r"a\b", r"(a)\1", "(a", "a^b", "(?!a)b", "[b-a]", "a{2,1}"])
def test_a_pattern_that_a_grammar_cant_hold_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(
        InputError, match=f"^#/x: pattern: {re.escape(repr(pattern))} can't be held by a grammar: "
    ):
        whole_pattern(pattern, "#/x")
