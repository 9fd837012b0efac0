"""Figures: what they have to be, which machine they belong to, the file that keeps them."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bar:
    """A figure and its bound: the least that it may be, or else the most."""

    what: str
    figure: float
    bound: float
    is_least: bool = True

    @property
    def held(self) -> bool:
        """Whether the figure is on the right side."""
        return self.figure >= self.bound if self.is_least else self.figure <= self.bound

    def __str__(self) -> str:
        side = "at least" if self.is_least else "at most"
        return f"{self.what}: {self.figure:.3g}, {side} {self.bound:g}: {'held' if self.held else 'MISSED'}"


def verdict(who: str, bars: Iterable[Bar]) -> int:
    """Print the bars; the exit status: 1 where one is missed."""
    found = list(bars)
    for bar in found:
        print(f"  {who}: {bar}")
    return 0 if all(bar.held for bar in found) else 1


def ratios(ones: Sequence[float], others: Sequence[float]) -> list[float]:
    """Of pairs that ran one after the other; their median is what counts."""
    return [one / other for one, other in zip(ones, others, strict=True)]


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": names[0].split(": ")[1] if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": date.today().isoformat(),
    }


def write_figures(path: Path, figures: Mapping[str, Any]) -> None:
    """Keep the raw figures."""
    path.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
