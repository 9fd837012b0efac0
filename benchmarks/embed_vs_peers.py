"""How fast documents are embedded, against other engines on the same machine, in one run.

    make bench MODEL=<folder of EmbeddingGemma-300M> [PEERS=<python with sentence-transformers> [GGUF=<files>]]

Contestants run in turn, A B A B ..., with the same number of threads; each pair of neighbours gives a ratio, and the
median of the ratios is what counts: a shared machine changes its speed, and it does so for both of a pair.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from contest import LLAMA, Contestant, Program, add_options, in_turn
from documents import documents
from figures import machine, ratios, write_figures

REFERENCE = "sentence-transformers"
TEXTS = documents()


class Embedder(Contestant):
    """A contestant that has embedded the documents once."""

    def __init__(self, program: Program, name: str, model: str, label: str | None = None) -> None:
        super().__init__(program, name, model, label)
        self.vectors = np.array(self.ask("vectors", texts=TEXTS), np.float32)

    def run(self, _: int = 0) -> float:
        """Seconds of one run over all documents."""
        return float(self.ask("seconds", texts=TEXTS))


def compare(one: Embedder, reference: Embedder, pairs: int) -> dict[str, Any]:
    """Interleaved pairs; the ratio is one's documents per second over the reference's."""
    seconds, theirs = in_turn(pairs, one.run, reference.run)
    found = ratios(theirs, seconds)
    return {
        "seconds": {one.name: seconds, reference.name: theirs},
        "ratio": statistics.median(found),
        "ratios": found,
        "least_cosine": float((one.vectors * reference.vectors).sum(1).min()),
    }


def main() -> None:
    """Measure, print a table, keep the raw figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="folder of EmbeddingGemma-300M as published")
    parser.add_argument(
        "--gguf",
        nargs="+",
        default=[],
        help="files of embedding_gguf.py: llama.cpp is measured too",
    )
    add_options(parser, "sentence-transformers (and llama-cpp-python)")
    options = parser.parse_args()
    if options.gguf and not options.peers:
        parser.error("--gguf needs --peers: llama.cpp runs in the peers' Python")

    def embedder(python: str, name: str, model: str = options.model, label: str | None = None) -> Embedder:
        return Embedder(Program("embedders.py", python, options.threads), name, model, label)

    contestants = [embedder(sys.executable, name) for name in options.devices]
    rows: dict[str, Any]
    if options.peers:
        reference = embedder(options.peers, REFERENCE)
        contestants += [
            embedder(options.peers, LLAMA, file, f"{LLAMA} {Path(file).name}") for file in options.gguf
        ]
        rows = {one.name: compare(one, reference, options.pairs) for one in contestants}
    else:
        rows = {one.name: {"seconds": {one.name: in_turn(options.pairs, one.run)[0]}} for one in contestants}
    head = {"machine": machine(), "threads": options.threads, "documents": len(TEXTS)}
    report(head, contestants, rows)
    if options.out:
        write_figures(options.out, head | rows)


def report(head: dict[str, Any], contestants: list[Embedder], rows: dict[str, Any]) -> None:
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
