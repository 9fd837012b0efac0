"""A pattern's whole-text form is fitted by texts that the pattern is found in, for any way to write it, and by no other."""

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import InputError
from doppler_core.text.grammar import Regex
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.pattern import whole_pattern
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import allowed, open_table

Opened = tuple[Tokenizer, TokenTable]

ATOMS = st.sampled_from(
    [
        *("a", "b", "1", "[ab]", "[^a]", r"[^\d]", r"[\w-]", r"\d", r"\D", r"\S", ".", "(a|b)", "(?:ab|)", r"\|"),
        *("[|)]", r"[\]a]", r"\\", "[a[]", "[]b]", "[^]b]", "[&a]", "[a&]", "{", "}", "]", r"[\-b]", "[+-a]", r"\x61"),
    ]
)  # fmt: skip
PARTS = st.tuples(ATOMS, st.sampled_from(["", "", "*", "+?", "?", "{2}", "{1,2}", "{,2}"])).map("".join)
BRANCHES = st.tuples(
    st.sampled_from(["", "^", r"\A"]),
    st.lists(PARTS, max_size=3).map("".join),
    st.sampled_from(["", "$", r"\Z"]),
).map("".join)
PATTERNS = st.lists(BRANCHES, min_size=1, max_size=3).map("|".join)
GROUPED = PATTERNS | PATTERNS.map("({})".format) | PATTERNS.map("^(?:{})$".format)

# Pieces of anything, most of which make no pattern together.
PIECES = st.sampled_from(
    [
        *("a", "b", "K", "i", "1", "-", "&", "~", "^", "$", "|", "*", "+", "?", "{,2}", "{1}", "{2,", "}", "(", ")"),
        *("[", "]", "[^", "(?:", "(?i:", "(?s:", "(?P<n>", "(?=", "(?>", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
        *("&&", "--", "~~", "[a&&b]", "[^a&&b]", "[[:alpha:]]", "[^[a]b]", "[a-c--b]", "[+--]", r"\b", r"\A", r"\Z"),
        *(r"\-", r"\[", r"\x61", r"\u0062", r"\<", r"\n", r"\\", "*+", "[a-b]", "[b-a]"),
    ]
)  # fmt: skip
WILD = st.tuples(
    st.sampled_from(["", "", "", "(?i)", "(?s)", "(?m)", "(?x)"]), st.lists(PIECES, max_size=7).map("".join)
).map("".join)
# Among them digits, letters and spaces that some readers know and others do not, and letters of more than two cases.
TEXTS = st.text("ab1K|]\\ -&~[^:lph{\n\r_é\u0661\u00b2\u2028\x1c\ufeff\u212a\u0130\u017fs", max_size=5)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


@lru_cache(64)
def found_in(pattern: str, text: str) -> bool:
    """Whether Python finds the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.search(pattern, text) is not None


def wrong_to_python(pattern: str) -> str:
    """What Python finds wrong with a pattern; "" where that is nothing."""
    try:
        found_in(pattern, "")
    except re.error as error:
        return str(error)
    return ""


def whole_or_why(pattern: str) -> tuple[str | None, str]:
    """The whole form of a pattern, or why there is none."""
    try:
        return whole_pattern(pattern, "#"), ""
    except InputError as error:
        return None, str(error)


def fits(opened: Opened, whole: str, text: str) -> bool:
    """Whether llguidance takes the text."""
    tokenizer, table = opened
    now = constraint(table, Regex(whole))
    for token in tokenizer.encode(text, bare=True):
        if token not in allowed(now):
            return False
        now.accept(token)
    return now.stopped or not ends(tokenizer).isdisjoint(allowed(now))


def ends(tokenizer: Tokenizer) -> set[int]:
    return {number for name in ("<eos>",) if (number := tokenizer.token_id(name)) is not None}


def written(opened: Opened, whole: str, seed: int) -> Iterator[str]:
    """Whole texts that a model without a clue comes by, as far as it gets in some steps."""
    tokenizer, table = opened
    rng, now, pieces = np.random.default_rng(seed), constraint(table, Regex(whole)), [b""]
    for _ in range(6):
        able = allowed(now) if not now.stopped else np.array([*ends(tokenizer)])
        if not ends(tokenizer).isdisjoint(able):
            yield b"".join(pieces).decode("utf-8", "replace")
        able = np.array([one for one in able if tokenizer.piece(int(one))])
        if not len(able):
            return
        pieces.append(tokenizer.piece(token := int(rng.choice(able))))
        now.accept(token)


@given(GROUPED, st.lists(TEXTS, max_size=4))
def test_a_text_fits_the_whole_form_where_the_pattern_is_found_in_it(
    opened: Opened, pattern: str, texts: list[str]
) -> None:
    """Of plain ASCII it is the same; of other texts, whole forms may have fewer: those that all readers agree on."""
    whole = whole_pattern(pattern, "#")
    for text in texts:
        fit = fits(opened, whole, text)
        assert fit <= found_in(pattern, text)
        if text.isascii() and text.isprintable():
            assert fit == found_in(pattern, text)


@settings(max_examples=400)
@given(WILD, st.lists(TEXTS, max_size=4), st.integers(0, 2**32))
def test_whatever_pattern_there_is_it_is_refused_by_name_or_allows_no_more_than_python(
    opened: Opened, pattern: str, texts: list[str], seed: int
) -> None:
    whole, why = whole_or_why(pattern)
    if whole is None:
        assert why.startswith(f"#: pattern: {pattern!r} can't be held by a grammar: ")
        return
    if wrong := wrong_to_python(pattern):
        # What is a range to Python, and none, is a hyphen to JavaScript; a group's name may come twice there.
        assert re.search(r"bad character range \\\\|redefinition of group name", wrong)
        return
    for text in [*texts, *written(opened, whole, seed)]:
        assert fits(opened, whole, text) <= found_in(pattern, text), text


@pytest.mark.parametrize(
    ("pattern", "text", "fit"),
    [
        ("[^a&&b]", "a", None),
        ("[^[a]b]", "x", None),
        ("[[:alpha:]]", "a", None),
        ("[a-c--b]", "a", None),
        ("[a~~b]", "a", None),
        ("[[(]", "[", True),
        (r"^[^\[\]&~]$", "&", False),
        (r"^[a\-\-b]$", "-", True),
        (r"^\D$", "\u0661", False),
        (r"^\D$", "a", True),
        (r"^[^\D]$", "1", True),
        (r"^[^\D]$", "\u0661", False),
        (r"^\W$", "\u00b2", False),
        (r"^\W$", "-", True),
        (r"^\S$", "\x1c", False),
        (r"^\S$", "\ufeff", False),
        (r"^\d$", "\u0661", False),
        (r"^\w$", "é", False),
        ("(?i)^straße$", "STRAßE", True),
        ("(?i)^k$", "\u212a", False),
        ("(?i)x|^y$", "Y", True),
        ("(?s)^a.b|c$", "a\nb", True),
        ("^a.b$", "a\nb", False),
        (r"(^\d{5}$)|(^\d{5}-\d{4}$)", "12345-6789", True),
        (r"(^\d{5}$)|(^\d{5}-\d{4}$)", "x12345", False),
        (r"^[\w-.]+$", "a-b.c", True),
        (r"^\p{Lu}\P{L}$", "É1", True),
        (r"^\u{e9}\xe9$", "éé", True),
        ("^a{,2}$", "aa", True),
        ("^a{,2}$", "aaa", False),
        ("^a{x}$", "a{x}", True),
    ],
)
def test_what_readers_see_in_several_ways(opened: Opened, pattern: str, text: str, fit: bool | None) -> None:
    if fit is None:
        with pytest.raises(InputError, match=r"in a class, which some read as sets: write \\\["):
            whole_pattern(pattern, "#")
    else:
        assert fits(opened, whole_pattern(pattern, "#"), text) == fit


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?<=a)b", r"a\b", r"(a)\1", "(a", "a)", "a^b", "(?!a)b", "[b-a]", "a{2,1}", "(^a|b)c", "(a$)?", "[a", "\\"),
        *("(?x)a b", "(?i)[^a]", "a*+", "a**", "(?>a)", "(?#c)a", "*a", "^*", r"\q", r"\012", r"[a-\d]", r"\ud800"),
        *(r"\N{DASH}", r"\p{Nonsense}", "a{99999999999}", f"a{{{'9' * 5000}}}", "(" * 500 + ")" * 500),
    ],
)  # fmt: skip
def test_a_pattern_that_a_grammar_cant_hold_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(
        InputError, match=f"^#/x: pattern: {re.escape(repr(pattern[:100]))} can't be held by a grammar: "
    ):
        whole_pattern(pattern, "#/x")


@given(
    st.characters(exclude_categories=["Cs"]), st.sampled_from([r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", "."])
)
def test_no_character_passes_for_what_it_is_not_to_some_reader(opened: Opened, one: str, name: str) -> None:
    for pattern in (f"^{name}$", f"^[{name}]$", f"^[^{name}]$", f"^[^a{name}]$"):
        assert fits(opened, whole_pattern(pattern, "#"), one) <= found_in(pattern, one), pattern
