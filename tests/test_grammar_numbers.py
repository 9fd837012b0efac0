"""The expressions of numbers between limits tell them apart as arithmetic does."""

import re
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from doppler_core.text.grammar.number_limits import limit_patterns

HOLDS = {
    "minimum": lambda number, limit: number >= limit,
    "exclusiveMinimum": lambda number, limit: number > limit,
    "maximum": lambda number, limit: number <= limit,
    "exclusiveMaximum": lambda number, limit: number < limit,
}
LIMITS = st.one_of(
    st.integers(-(10**19), 10**19),
    st.integers(-30, 30),
    st.integers(-3000, 3000).map(lambda number: number / 100),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
WRITTEN = st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?", fullmatch=True)


@st.composite
def near(draw: st.DrawFn) -> tuple[float, str]:
    """A limit, and a number that is often close to it or written like it."""
    limit = draw(LIMITS)
    exact = format(Decimal(repr(limit)), "f")
    step = Decimal(draw(st.sampled_from(["0", "1", "-1", "0.1", "-0.1", "0.001", "-0.001", "1e-9", "-1e-9"])))
    close = format(Decimal(exact) + step, "f")
    zeros = draw(st.sampled_from(["", "0", "00"]))
    return limit, draw(
        st.sampled_from([exact, close, (close if "." in close else f"{close}.") + zeros + "0", draw(WRITTEN)])
    )


@given(near(), st.sampled_from(sorted(HOLDS)))
@example((0, "0"), "exclusiveMinimum")
@example((0, "-0"), "minimum")
@example((0.5, "0"), "maximum")
@example((0, "0.0"), "exclusiveMaximum")
@example((1e-7, "0.0000001"), "minimum")
@example((1, "0.99"), "exclusiveMaximum")
@example((0.25, "0.2"), "maximum")
@example((10.05, "10"), "maximum")
def test_a_number_is_let_through_where_it_holds(case: tuple[float, str], key: str) -> None:
    limit, written = case
    (pattern,) = limit_patterns([(key, limit)])
    assert bool(re.fullmatch(pattern, written)) == HOLDS[key](Decimal(written), Decimal(repr(limit)))
