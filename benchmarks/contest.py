"""Comparisons: contestants in processes of their own, runs that take turns. It knows no model and no figure."""

import json
import os
import subprocess
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
LLAMA = "llama.cpp"
PAIRS = 5
_ERROR_LINES = 12

T = TypeVar("T")


@dataclass(frozen=True)
class Program:
    """How a contestant is started: its script beside this file, a Python, threads, variables of its own."""

    script: str
    python: str
    threads: int
    variables: Mapping[str, str] = field(default_factory=dict)


class Contestant:
    """A process that does on request what its script has functions for. `label` names it where `name` is not enough."""

    def __init__(self, program: Program, name: str, model: str, label: str | None = None) -> None:
        self.name = label or name
        threads = str(program.threads)
        environment = {**os.environ, **program.variables, "HF_HUB_OFFLINE": "1"}
        environment |= {"OMP_NUM_THREADS": threads, "LP_NUM_THREADS": threads}
        # An installed package is compiled once; without this each contestant might compile all that it imports.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [program.python, str(HERE / program.script), name, model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self.open_seconds: float = self._answer()["open_seconds"]

    def ask(self, function: str, **arguments: Any) -> Any:
        """What a function of the contestant gives."""
        process = self._process
        assert process.stdin is not None
        # A process that has ended already shows by giving no answer.
        with suppress(BrokenPipeError):
            print(json.dumps({"function": function, "arguments": arguments}), file=process.stdin, flush=True)
        return self._answer()["found"]

    def close(self) -> None:
        """End the process, and wait until it has."""
        self._process.communicate()
        self._errors.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return dict(json.loads(line))
        code = self._process.wait()
        self._errors.seek(0)
        last = "".join(self._errors.readlines()[-_ERROR_LINES:])
        self.close()
        raise SystemExit(f"{self.name} ended with code {code}; its last lines:\n{last}")


def in_turn(rounds: int, *runs: Callable[[int], T]) -> list[list[T]]:
    """What the runs give, A B A B ..., for each of them; a run is told the round. A shared machine changes its speed,
    and it does so for both of a pair."""
    found = [[run(number) for run in runs] for number in range(rounds)]
    return [list(results) for results in zip(*found, strict=True)]


def add_options(parser: ArgumentParser, peers: str) -> None:
    """The options that every comparison has."""
    parser.add_argument("--peers", help=f"a Python that has {peers}")
    parser.add_argument("--devices", nargs="+", default=["numpy", "wgpu"], help="which of our executors")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the raw figures to this JSON file")
