"""A contestant's side of contest.py: opens a model, then calls what each line asks for, until there are no more lines.

It runs in the peers' environment too, so it knows nothing of the project.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Functions = Mapping[str, Callable[..., Any]]


def serve(contestants: Mapping[str, Callable[[str], Functions]]) -> None:
    """Be the contestant that the command line names: `NAME MODEL`. Answers are lines of JSON.

    First `open_seconds`, imports among them; then for each line {"function", "arguments"} what the function `found`.
    """
    name, model = sys.argv[1:]
    started = time.perf_counter()
    functions = contestants[name](model)
    _answer({"open_seconds": time.perf_counter() - started})
    for line in sys.stdin:
        asked = json.loads(line)
        _answer({"found": functions[asked["function"]](**asked["arguments"])})


def _answer(value: Mapping[str, Any]) -> None:
    print(json.dumps(value), flush=True)
