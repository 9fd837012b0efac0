"""A terminal without a screen: what stands on it after some output, whatever width it has or gets.

It knows the codes that this project writes, and fails at any other. Lines that are longer than the window go on in the
next row, also when the window becomes narrower afterwards; its height has no end.
"""

import re
import unicodedata

_CODE = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|\x1b.?|.", re.DOTALL)


class Terminal:
    """`columns` may be assigned. A line holds what was written up to its line break."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._lines: list[list[str]] = [
            []
        ]  # cells: a character and the marks over it; a wide one has "" behind it
        self._at = 0  # of the last line's; nothing here writes above it
        self._wraps = True

    @property
    def lines(self) -> list[str]:
        """What stands there, without the spaces at the ends."""
        return ["".join(line).rstrip() for line in self._lines]

    @property
    def rows(self) -> int:
        """Of the window, down to the cursor."""
        return sum(self._rows(line) for line in self._lines)

    def feed(self, text: str) -> None:
        """Output of a program; the line break is the one that a terminal's driver makes a carriage return of as well."""
        for found in _CODE.finditer(text):
            if found[3] is None:
                self._put(found[0])
            elif found[1]:
                assert found[0] in ("\x1b[?7h", "\x1b[?7l"), found[0]
                self._wraps = found[3] == "h"
            elif found[3] == "A":
                self._up(int(found[2]))
            elif found[3] == "J":
                del self._lines[-1][self._at :]
            else:
                assert found[3] == "m", found[0]

    def _put(self, character: str) -> None:
        assert character >= " " or character in "\r\n", f"{character!r} reached the terminal"
        line = self._lines[-1]
        if character == "\n":
            self._lines.append([])
        if character in "\r\n":
            self._at = 0
            return
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs"), (
            f"{character!r} reached the terminal"
        )
        if unicodedata.category(character) in ("Mn", "Me"):
            if self._at:
                line[self._at - 1] += character
            return
        wide = unicodedata.east_asian_width(character) in "WF"
        if not self._wraps and self._at + 1 + wide > self.columns:
            return
        line[self._at :] = [character, ""] if wide else [character]
        self._at += 1 + wide

    def _up(self, rows: int) -> None:
        """Up by rows of the window, to a line's first, and nothing below it counts any more: it is cleared next."""
        assert self._at == 0
        self._lines.pop()
        while rows > 0:
            rows -= self._rows(self._lines.pop())
        assert rows == 0, "the cursor went into the midst of a line"
        self._lines.append([])

    def _rows(self, line: list[str]) -> int:
        return max(-(-len(line) // self.columns), 1)
