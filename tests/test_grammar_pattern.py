"""A pattern's whole-text form is fitted by texts that the pattern is found in, for any way to write it, and by no other;
that of a Regex, by those that it matches as a whole."""

import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import InputError
from doppler_core.text.grammar import Lark
from doppler_core.text.grammar.lark_text import lark_regex
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.pattern import full_pattern, whole_pattern
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


def as_pattern(pattern: str) -> str:
    return whole_pattern(pattern, "#")


# How a pattern is read, and what of Python has to agree: a schema's, and a Regex.
READINGS = [(as_pattern, re.search, "#: pattern"), (full_pattern, re.fullmatch, "grammar")]
Reading = tuple[Callable[[str], str], Callable[[str, str], re.Match[str] | None], str]


@lru_cache(64)
def found_in(pattern: str, text: str, match: Callable[[str, str], re.Match[str] | None] = re.search) -> bool:
    """Whether Python finds the pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return match(pattern, text) is not None


def wrong_to_python(pattern: str) -> str:
    """What Python finds wrong with a pattern; "" where that is nothing."""
    try:
        found_in(pattern, "")
    except re.error as error:
        return str(error)
    return ""


def whole_or_why(pattern: str, read: Callable[[str], str] = as_pattern) -> tuple[str | None, str]:
    """The whole form of a pattern, or why there is none."""
    try:
        return read(pattern), ""
    except InputError as error:
        return None, str(error)


def as_lark(whole: str) -> Lark:
    """A whole form as it stands: nothing reads it anew."""
    return Lark(f"start: {lark_regex(whole)}")


def fits(opened: Opened, whole: str, text: str) -> bool:
    """Whether llguidance takes the text."""
    tokenizer, table = opened
    now = constraint(table, as_lark(whole))
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
    rng, now, pieces = np.random.default_rng(seed), constraint(table, as_lark(whole)), [b""]
    for _ in range(6):
        able = allowed(now) if not now.stopped else np.array([*ends(tokenizer)])
        if not ends(tokenizer).isdisjoint(able):
            yield b"".join(pieces).decode("utf-8", "replace")
        able = np.array([one for one in able if tokenizer.piece(int(one))])
        if not len(able):
            return
        pieces.append(tokenizer.piece(token := int(rng.choice(able))))
        now.accept(token)


@given(GROUPED, st.lists(TEXTS, max_size=4), st.sampled_from(READINGS))
def test_a_text_fits_the_whole_form_where_the_pattern_is_found_in_it(
    opened: Opened, pattern: str, texts: list[str], reading: Reading
) -> None:
    """Of plain ASCII it is the same; of other texts, whole forms may have fewer: those that all readers agree on."""
    read, match, _ = reading
    whole = read(pattern)
    for text in texts:
        fit, found = fits(opened, whole, text), found_in(pattern, text, match)
        assert fit <= found
        if text.isascii() and text.isprintable():
            assert fit == found


@settings(max_examples=400)
@given(WILD, st.lists(TEXTS, max_size=4), st.integers(0, 2**32), st.sampled_from(READINGS))
def test_whatever_pattern_there_is_it_is_refused_by_name_or_allows_no_more_than_python(
    opened: Opened, pattern: str, texts: list[str], seed: int, reading: Reading
) -> None:
    read, match, where = reading
    whole, why = whole_or_why(pattern, read)
    if whole is None:
        assert why.startswith(f"{where}: {pattern!r} can't be held by a grammar: ")
        return
    if wrong := wrong_to_python(pattern):
        # What is a range to Python, and none, is a hyphen to JavaScript; a group's name may come twice there.
        assert re.search(r"bad character range \\\\|redefinition of group name", wrong)
        return
    for text in [*texts, *written(opened, whole, seed)]:
        assert fits(opened, whole, text) <= found_in(pattern, text, match), text


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
        for read, match, _ in READINGS:
            assert fits(opened, read(pattern), one) <= found_in(pattern, one, match), pattern


@pytest.mark.parametrize("pattern", [r"\w+ \d\s", r"[\w]+ [\d][\s]", ".+"])
def test_a_regex_knows_the_letters_of_all_languages_and_of_ascii_alone_where_that_is_asked_for(
    opened: Opened, pattern: str
) -> None:
    for text in ("naïve 7 ", "Привет \u0663\u2003", "a 1\r"):
        assert re.fullmatch(pattern, text)
        assert fits(opened, full_pattern(pattern), text)
        ascii_only = f"(?a){pattern}"
        assert fits(opened, full_pattern(ascii_only), text) == (re.fullmatch(ascii_only, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a{1000000}", "{1000000}: more than 999999 times: repeat it less, or without an end"),
        ("a{0,1000000}", "{0,1000000}: more than 999999 times: repeat it less, or without an end"),
        ("b|ca{200000}", "{200000} asks for 200000 characters at least, and 20000 are the most"),
        ("([ab]|cd){3}((a{100}b+){99,}){9}", "{9} asks for 89991 characters at least"),
        ("^(a+){2000}$", "it repeats what is of many forms too often to be followed: repeat less"),
        ("^(a|aa|aaa){3000}$", "it repeats what is of many forms too often to be followed: repeat less"),
    ],
)
def test_what_repeats_beyond_all_answers_is_refused_before_a_token_is_made(pattern: str, why: str) -> None:
    for read, _, where in READINGS:
        with pytest.raises(
            InputError, match=re.escape(f"{where}: {pattern!r} can't be held by a grammar: {why}")
        ):
            read(pattern)


@pytest.mark.parametrize(
    "pattern", ["[ab]{20000}", "a{0,999999}", "(a{0,1000}){0,1000}", "([a-z]+ ?){2000,}"]
)
def test_what_repeats_as_often_as_an_answer_may_is_held(opened: Opened, pattern: str) -> None:
    for read, _, _ in READINGS:
        now = constraint(opened[1], as_lark(read(pattern)))
        for token in opened[0].encode("aa", bare=True):
            now.accept(token)


def test_a_grammar_that_grows_beyond_all_limits_says_so_in_our_words(opened: Opened) -> None:
    now = constraint(opened[1], Lark("start: /x(a+){2000}/"))
    with pytest.raises(InputError, match=r"^grammar: it repeats what is of many forms too often"):
        now.accept(*opened[0].encode("x", bare=True))
