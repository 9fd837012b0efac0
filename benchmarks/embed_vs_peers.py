"""How fast documents are embedded, against other engines on the same machine, in one run.

    make bench MODEL=<folder of EmbeddingGemma-300M> [PEERS=<python with sentence-transformers>]

Contestants run in turn, A B A B ..., with the same number of threads; each pair of neighbours gives a ratio, and the
median of the ratios is what counts: a shared machine changes its speed, and it does so for both of a pair.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from documents import documents

HERE = Path(__file__).parent
REFERENCE = "sentence-transformers"
PAIRS = 5


class Contestant:
    """A process that embeds the documents on request."""

    def __init__(self, name: str, python: str, model: str, threads: int) -> None:
        self.name = name
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "LP_NUM_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [python, str(HERE / "contestant.py"), name, model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        first = self._ask(json.dumps(documents()))
        self.open_seconds: float = first["open_seconds"]
        self.vectors = np.array(first["vectors"], np.float32)

    def run(self) -> float:
        """Seconds of one run over all documents."""
        return float(self._ask("run")["seconds"])

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(30)

    def _ask(self, line: str) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(line, file=process.stdin, flush=True)
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(
                f"{self.name} ended with code {process.wait()}: run contestant.py by hand to see why"
            )
        return dict(json.loads(answer))


def compare(ours: Contestant, other: Contestant, pairs: int) -> dict[str, Any]:
    """Interleaved pairs; the ratio is ours over theirs in documents per second."""
    seconds: dict[str, list[float]] = {ours.name: [], other.name: []}
    for _ in range(pairs):
        for one in (ours, other):
            seconds[one.name].append(one.run())
    ratios = [theirs / mine for mine, theirs in zip(seconds[ours.name], seconds[other.name], strict=True)]
    cosine = float((ours.vectors * other.vectors).sum(1).min())
    return {"seconds": seconds, "ratio": statistics.median(ratios), "ratios": ratios, "least_cosine": cosine}


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


def main() -> None:
    """Measure, print a table, keep the raw figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="folder of EmbeddingGemma-300M as published")
    parser.add_argument("--peers", help="a Python that has sentence-transformers (and llama-cpp-python)")
    parser.add_argument("--gguf", help="EmbeddingGemma as a GGUF file: llama.cpp is measured too")
    parser.add_argument("--devices", nargs="+", default=["numpy", "wgpu"], help="which of our executors")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the raw figures to this JSON file")
    options = parser.parse_args()
    contestants = [
        Contestant(name, sys.executable, options.model, options.threads) for name in options.devices
    ]
    found: dict[str, Any] = {"machine": machine(), "threads": options.threads, "documents": len(documents())}
    if options.peers:
        reference = Contestant(REFERENCE, options.peers, options.model, options.threads)
        for ours in contestants:
            found[ours.name] = compare(ours, reference, options.pairs)
        if options.gguf:
            llama = Contestant("llama.cpp", options.peers, options.gguf, options.threads)
            found["llama.cpp"] = compare(llama, reference, options.pairs)
    else:
        for ours in contestants:
            found[ours.name] = {"seconds": {ours.name: [ours.run() for _ in range(options.pairs)]}}
    report(found, contestants)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def report(found: dict[str, Any], contestants: list[Contestant]) -> None:
    """The table."""
    print(f"{found['machine']['processor']}, {found['threads']} threads, {found['documents']} documents")
    for one in contestants:
        print(f"  {one.name}: open {one.open_seconds:.1f} s")
    for name in ("numpy", "wgpu", "llama.cpp"):
        if name not in found:
            continue
        medians = {who: statistics.median(seconds) for who, seconds in found[name]["seconds"].items()}
        speeds = ", ".join(
            f"{who} {found['documents'] / seconds:.2f} documents/s" for who, seconds in medians.items()
        )
        ratio = (
            f"; ratio {found[name]['ratio']:.3f}, least cosine {found[name]['least_cosine']:.6f}"
            if "ratio" in found[name]
            else ""
        )
        print(f"  {speeds}{ratio}")


if __name__ == "__main__":
    main()
