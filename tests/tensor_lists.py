"""Names and shapes of a publisher's tensors, read from a small file: no weights are needed to lower a plan."""

from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "data"

Shapes = dict[str, tuple[int, ...]]


def read_shapes(path: Path) -> Shapes:
    """A line is a name, a tab and its axes ("-": none); for layers of one shape * in the name, and the layers' numbers."""
    return dict(_expanded(path.read_text().splitlines()))


def _expanded(lines: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for line in lines:
        name, axes, *layers = line.split("\t")
        shape = () if axes == "-" else tuple(map(int, axes.split()))
        for numbers in layers[0].split(",") if layers else ():
            first, _, last = numbers.partition("-")
            for layer in range(int(first), int(last or first) + 1):
                yield name.replace("*", str(layer)), shape
        if not layers:
            yield name, shape
