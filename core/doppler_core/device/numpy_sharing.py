"""Who shares out the products of one-row steps: BLAS's own threads or the crew, whichever was faster of late.

BLAS's threads keep awake for each other. On idle cores that saves a sixth of a step (Gemma 3 270M on two cores, 300
small ops); beside another busy process it makes a step three times as long. No figure tells which it is, so steps are
timed. Parts begin at multiples of what BLAS computes at once, so that the values are the same.
"""

TRY_AGAIN = 32  # steps after which the slower way is tried once more
_NEWEST = 0.5  # share of the newest time in what is remembered


class Sharing:
    """Remembers how long steps took either way."""

    def __init__(self) -> None:
        self._seconds: dict[bool, float] = {}
        self._since = 0

    def by_blas(self) -> bool:
        """Whether BLAS's threads share out the next step's products."""
        if len(self._seconds) < 2:
            return False in self._seconds
        faster = self._seconds[True] < self._seconds[False]
        return faster != (self._since >= TRY_AGAIN)

    def note(self, by_blas: bool, seconds: float) -> None:
        """How long a step took that way."""
        before = self._seconds.get(by_blas, seconds)
        faster = len(self._seconds) == 2 and self._seconds[by_blas] <= self._seconds[not by_blas]
        self._since = self._since + 1 if faster else 0
        self._seconds[by_blas] = before + _NEWEST * (seconds - before)
