"""Compare the torch model with transformers' on held-out tasks.

    python compare.py CHECKPOINT_FOLDER

Gives the largest difference of the logits of two steps, and the largest logit. Needs transformers beside torch.
"""

import random
import sys
from pathlib import Path

import torch
from cases import task_cases
from export import read_model
from noising import noised
from rows import examples, pack
from transformers import DiffusionGemmaForBlockDiffusion, DynamicCache


@torch.no_grad()
def main(folder: Path, count: int = 8) -> None:
    model, tokenizer = read_model(folder)
    shape = model.shape
    theirs = DiffusionGemmaForBlockDiffusion.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    torch.manual_seed(3)
    difference = largest = 0.0
    for example in examples(task_cases(count, 3), tokenizer, shape.canvas, random.Random(3)):
        batch = pack([example])
        kept = model.encode(batch.ids, batch.positions, batch.encoder_masks(shape, torch.float32))
        known, masks = batch.known(kept), batch.canvas_masks(shape, torch.float32)
        cache, before = DynamicCache(config=theirs.config.text_config), None
        theirs.model.encoder(input_ids=torch.tensor([example.known]), cache=cache)
        for _ in range(2):
            canvas = noised(batch.right, shape.vocab)
            mine = model.denoise(canvas, batch.canvas_positions(shape), masks, known, before)
            other = theirs(decoder_input_ids=canvas, cache=cache, self_conditioning_logits=before).logits
            difference = max(difference, float((mine - other).abs().max()))
            largest, before = max(largest, float(other.abs().max())), other / 0.6
    print(f"largest difference {difference:.1e}, largest logit {largest:.1f}, {count} tasks")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
