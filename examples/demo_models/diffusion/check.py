"""Measure an artifact or a checkpoint on held-out tasks, by the package's own engine.

    python check.py [MODEL] [--count 100] [--seed 2026] [--device numpy]

Gives the share of answers that are exact, by kind, with the sampler's draws and with the likeliest tokens in their place,
and what was missed. All tasks are submitted at once; the engine merges them.
"""

import argparse
from collections import Counter
from collections.abc import Sequence

from cases import task_cases
from tasks import Task

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest, GenerateResult
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

LONGEST = 64  # tokens of the longest answer: two canvases


def answers(
    engine: Engine, cases: Sequence[Task], temperature: float | None = None, seed: int = 0
) -> list[GenerateResult]:
    """What the model answers; temperature 0: the likeliest tokens. Each task has a seed of its own, `seed` the first."""
    handles = [
        engine.submit(
            GenerateRequest(
                ({"role": "user", "content": case.request},),
                max_tokens=LONGEST,
                temperature=temperature,
                seed=number,
            )
        )
        for number, case in enumerate(cases, seed)
    ]
    return [handle.result() for handle in handles]


def share(cases: Sequence[Task], found: Sequence[GenerateResult]) -> float:
    """How many answers are exact."""
    return sum(one.text == case.answer for case, one in zip(cases, found, strict=True)) / len(cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="demo-diffusion")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--device", default="numpy")
    args = parser.parse_args()
    cases = task_cases(args.count, args.seed)
    with open_engine(args.model, EngineSettings(device=args.device)) as engine:
        for name, temperature in (("drawn", None), ("likeliest", 0.0)):
            found = answers(engine, cases, temperature)
            steps = sum(one.usage.denoising_steps for one in found) / len(found)
            print(f"{name}: exact {share(cases, found):.3f}, {steps:.1f} steps an answer")
            _print_kinds(cases, found)
            _print_missed(cases, found)


def _print_kinds(cases: Sequence[Task], found: Sequence[GenerateResult]) -> None:
    asked = Counter(case.kind for case in cases)
    right = Counter(case.kind for case, one in zip(cases, found, strict=True) if one.text == case.answer)
    print("  " + ", ".join(f"{kind} {right[kind]}/{count}" for kind, count in asked.most_common()))


def _print_missed(cases: Sequence[Task], found: Sequence[GenerateResult]) -> None:
    missed = [(case, one) for case, one in zip(cases, found, strict=True) if one.text != case.answer]
    for case, one in missed[:12]:
        print(f"  {case.request!r}\n    wanted {case.answer!r}\n    said   {one.text!r}")


if __name__ == "__main__":
    main()
