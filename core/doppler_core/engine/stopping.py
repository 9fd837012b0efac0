"""Text that may have to stop: pieces in, what can be shown out. It knows no tokens.

A text stops where the first of the stop strings is complete; of those complete at the same character, the longest
counts. So it does not matter how the text comes in pieces.
"""

from collections.abc import Sequence


class StopStrings:
    """Holds back the end of a text for as long as it may be the begin of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted(stops, key=len, reverse=True)
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        """What may be shown now, and the stop string that the text has come to: nothing after it counts."""
        text = self._held + text
        found = [(at + len(stop), -len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            end, negative, stop = min(found)
            self._held = ""
            return text[: end + negative], stop
        keep = self._possible(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def finish(self) -> str:
        """What was held back, once no more text comes."""
        held, self._held = self._held, ""
        return held

    def _possible(self, text: str) -> int:
        """Length of the longest end of `text` that some stop string begins with, and does not end with."""
        longest = min(len(self._stops[0]) - 1, len(text)) if self._stops else 0
        for length in range(longest, 0, -1):
            end = text[len(text) - length :]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
