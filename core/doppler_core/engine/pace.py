"""How much work goes into one step: out of how long the steps before it took. It knows no device."""

_GROUP_SECONDS = 0.05  # of steps that are submitted at once: what a cancellation or a new request waits for
_PATIENCE = 0.2  # seconds that a step of a long prompt may keep other requests from their next token, or
_SLOWER = 4  # times as long as without it, where every step takes long whatever its rows
_FEW_ROWS = 16  # a step of fewer costs as much as this one on any device
_UNKNOWN_ROWS = 64


class Pace:
    """Running estimates; the newest measurement counts half."""

    def __init__(self, most_steps: int) -> None:
        self._most_steps = most_steps
        self._step: float | None = None
        self._row: float | None = None

    def note_steps(self, steps: int, seconds: float) -> None:
        """`steps` steps of one row a sequence took `seconds`."""
        self._step = _mixed(self._step, seconds / steps)

    def note_rows(self, rows: int, seconds: float) -> None:
        """A step with prompts in it, of `rows` rows, took `seconds`."""
        if rows >= _FEW_ROWS:
            self._row = _mixed(self._row, seconds / rows)

    def steps(self) -> int:
        """How many steps to submit at once, 1 until one has been measured."""
        if self._step is None:
            return 1
        return max(1, min(self._most_steps, int(_GROUP_SECONDS / max(self._step, 1e-9))))

    def rows(self, most: int, others_wait: bool) -> int:
        """How many rows of prompts to put into a step that takes `most`."""
        if not others_wait:
            return most
        seconds = max(_PATIENCE, _SLOWER * (self._step or 0.0))
        fitting = _UNKNOWN_ROWS if self._row is None else int(seconds / max(self._row, 1e-9))
        return min(most, max(fitting, _FEW_ROWS))


def _mixed(known: float | None, new: float) -> float:
    return new if known is None else (known + new) / 2
