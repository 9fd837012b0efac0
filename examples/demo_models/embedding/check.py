"""Measure a written checkpoint on the held-out questions, and compare it with transformers.

    python check.py CHECKPOINT_FOLDER QUESTIONS.json

Gives the share of questions whose passage comes first of all, per width and with or without titles, the largest
hidden value, the file sizes, and the largest difference to transformers' `Gemma3TextModel`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from data import Passage, as_document, as_query, load_passages
from export import read_model
from model import Encoder
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import Gemma3TextModel

WIDTHS = (128, 64, 32)


@torch.no_grad()
def vectors(model: Encoder, tokenizer: Tokenizer, texts: list[str]) -> NDArray[np.float32]:
    """One unit row per text, each text run by itself."""
    ids = [torch.tensor([encoding.ids]) for encoding in tokenizer.encode_batch(texts)]
    rows = [model(row, torch.ones_like(row, dtype=torch.bool))[0].numpy() for row in ids]
    return np.stack(rows)


def first_right(q: NDArray[np.float32], d: NDArray[np.float32], gold: list[int], width: int) -> list[bool]:
    """Whether the right passage comes first, by cosine of the vectors cut to `width`."""
    d = d[:, :width] / np.linalg.norm(d[:, :width], axis=1, keepdims=True)
    return [bool(right) for right in (q[:, :width] @ d.T).argmax(1) == np.array(gold)]


@torch.no_grad()
def compare(folder: Path, model: Encoder, tokenizer: Tokenizer, texts: list[str]) -> tuple[float, float]:
    """Largest |hidden| and largest difference to transformers over the texts."""
    theirs = Gemma3TextModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    largest = difference = 0.0
    for encoding in tokenizer.encode_batch(texts):
        ids = torch.tensor([encoding.ids])
        present = torch.ones_like(ids, dtype=torch.bool)
        mine = model.hidden_states(ids, present)
        other = theirs(input_ids=ids, attention_mask=present.long(), output_hidden_states=True)
        largest = max(largest, *(float(h.abs().max()) for h in other.hidden_states))
        difference = max(difference, float((mine - other.last_hidden_state).abs().max()))
    return largest, difference


def main(folder: Path, questions: Path) -> None:
    passages: list[Passage] = load_passages()
    place = {p.id: i for i, p in enumerate(passages)}
    asked = json.loads(questions.read_text())
    gold = [place[row["passage"]] for row in asked]
    model, tokenizer = read_model(folder)
    q = vectors(model, tokenizer, [as_query(row["question"]) for row in asked])
    for name, titles in (("title: none", False), ("own titles", True)):
        texts = [as_document(p.text, p.title if titles else "none") for p in passages]
        d = vectors(model, tokenizer, texts)
        for width in WIDTHS:
            right = first_right(q, d, gold, width)
            print(
                f"{name}, {width:3} wide: {sum(right)} of {len(right)} right = {sum(right) / len(right):.1%}"
            )
            if width == WIDTHS[0]:
                missed = [row["question"] for row, ok in zip(asked, right, strict=True) if not ok]
                print(*(f"  missed: {question}" for question in missed), sep="\n")
    long = as_document(" ".join(p.text for p in passages[:30]))  # longer than the window
    largest, difference = compare(
        folder, model, tokenizer, [long, *(as_query(r["question"]) for r in asked[:20])]
    )
    print(f"largest hidden value {largest:.1f}, largest difference to transformers {difference:.1e}")
    sizes = {str(f.relative_to(folder)): f.stat().st_size for f in sorted(folder.rglob("*")) if f.is_file()}
    print(
        *(f"{size:>9,} {name}" for name, size in sizes.items()), f"{sum(sizes.values()):>9,} in all", sep="\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
