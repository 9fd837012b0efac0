"""Compare the torch model with transformers' on held-out conversations.

    python compare.py CHECKPOINT_FOLDER

Gives the largest difference of the logits, and the largest logit. Needs transformers beside torch.
"""

import random
import sys
from pathlib import Path

import torch
from export import read_model
from model import attention_masks
from packing import encode
from samples import two_step_sample
from transformers import Gemma4ForCausalLM
from values import Values


@torch.no_grad()
def main(folder: Path, count: int = 8) -> None:
    model, tokenizer = read_model(folder)
    theirs = Gemma4ForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    values = Values(random.Random(3), held_out=True)
    difference = largest = 0.0
    for row, _ in encode([two_step_sample(values) for _ in range(count)], tokenizer):
        ids = torch.tensor([row])
        masks = attention_masks(torch.zeros_like(ids), model.model.shape.window, torch.float32)
        mine = model.logits(model.model(ids, torch.arange(len(row))[None], masks))
        other = theirs(ids).logits
        difference = max(difference, float((mine - other).abs().max()))
        largest = max(largest, float(other.abs().max()))
    print(f"largest difference {difference:.1e}, largest logit {largest:.1f}, {count} conversations")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
