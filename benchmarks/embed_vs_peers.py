"""How fast documents are embedded, against other engines on the same machine, in one run.

    make bench MODEL=<folder of EmbeddingGemma-300M> [PEERS=<python with sentence-transformers> [GGUF=<files>]]

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
import tempfile
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from documents import documents

HERE = Path(__file__).parent
REFERENCE = "sentence-transformers"
LLAMA = "llama.cpp"
PAIRS = 5
ERROR_LINES = 12


class Contestant:
    """A process that embeds the documents on request. `label` names it in the table where `name` is not enough."""

    def __init__(self, name: str, python: str, model: str, threads: int, label: str | None = None) -> None:
        self.name = label or name
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "LP_NUM_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
        }
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [python, str(HERE / "contestant.py"), name, model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        first = self._ask(json.dumps(documents()))
        self.open_seconds: float = first["open_seconds"]
        self.vectors = np.array(first["vectors"], np.float32)

    def run(self) -> float:
        """Seconds of one run over all documents."""
        return float(self._ask("run")["seconds"])

    def _ask(self, line: str) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        # A process that has ended already shows below, by giving no answer.
        with suppress(BrokenPipeError):
            print(line, file=process.stdin, flush=True)
        answer = process.stdout.readline()
        if not answer:
            code = process.wait()
            self._errors.seek(0)
            last = "".join(self._errors.readlines()[-ERROR_LINES:])
            raise SystemExit(f"{self.name} ended with code {code}; its last lines:\n{last}")
        return dict(json.loads(answer))


def compare(one: Contestant, reference: Contestant, pairs: int) -> dict[str, Any]:
    """Interleaved pairs; the ratio is one's documents per second over the reference's."""
    seconds: dict[str, list[float]] = {one.name: [], reference.name: []}
    for _ in range(pairs):
        for runner in (one, reference):
            seconds[runner.name].append(runner.run())
    ratios = [theirs / its for its, theirs in zip(seconds[one.name], seconds[reference.name], strict=True)]
    cosine = float((one.vectors * reference.vectors).sum(1).min())
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
    parser.add_argument(
        "--gguf",
        nargs="+",
        default=[],
        help="files of embedding_gguf.py: llama.cpp is measured too",
    )
    parser.add_argument("--devices", nargs="+", default=["numpy", "wgpu"], help="which of our executors")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the raw figures to this JSON file")
    options = parser.parse_args()
    if options.gguf and not options.peers:
        parser.error("--gguf needs --peers: llama.cpp runs in the peers' Python")
    contestants = [
        Contestant(name, sys.executable, options.model, options.threads) for name in options.devices
    ]
    rows: dict[str, Any]
    if options.peers:
        reference = Contestant(REFERENCE, options.peers, options.model, options.threads)
        contestants += [
            Contestant(LLAMA, options.peers, file, options.threads, f"{LLAMA} {Path(file).name}")
            for file in options.gguf
        ]
        rows = {one.name: compare(one, reference, options.pairs) for one in contestants}
    else:
        rows = {
            one.name: {"seconds": {one.name: [one.run() for _ in range(options.pairs)]}}
            for one in contestants
        }
    head = {"machine": machine(), "threads": options.threads, "documents": len(documents())}
    report(head, contestants, rows)
    if options.out:
        options.out.write_text(json.dumps(head | rows, indent=1) + "\n", "utf-8")


def report(head: dict[str, Any], contestants: list[Contestant], rows: dict[str, Any]) -> None:
    """The table."""
    print(f"{head['machine']['processor']}, {head['threads']} threads, {head['documents']} documents")
    for one in contestants:
        print(f"  {one.name}: open {one.open_seconds:.1f} s")
    for row in rows.values():
        medians = {who: statistics.median(seconds) for who, seconds in row["seconds"].items()}
        speeds = ", ".join(
            f"{who} {head['documents'] / seconds:.2f} documents/s" for who, seconds in medians.items()
        )
        ratio = (
            f"; ratio {row['ratio']:.3f}, least cosine {row['least_cosine']:.6f}" if "ratio" in row else ""
        )
        print(f"  {speeds}{ratio}")


if __name__ == "__main__":
    main()
