"""The tiny Gemma 3 and Gemma 4 as GGUF files, opened where they lie: the tokens and values that transformers gives."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import TypeOf, all_f32, write_gguf

from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

GOLDENS = Path(__file__).parent / "goldens"
MODELS = ("gemma3", "gemma4")


def blocks(name: str, shape: tuple[int, ...]) -> Type:
    """Types as a quantised file mixes them, where rows are whole blocks of 32."""
    if len(shape) < 2 or shape[-1] % 32:
        return Type.F32
    if "attn_q" in name or "ffn_up" in name:
        return Type.Q5_0
    return Type.F16 if "ffn_down" in name else Type.Q8_0


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_exact_weights_makes_the_tokens_of_transformers(
    name: str, device: str, tmp_path: Path
) -> None:
    """Norms stored with their 1, the frequencies of rotations in a tensor, names of llama.cpp's own."""
    with np.load(GOLDENS / name / "golden.npz") as golden:
        ids, made, logits = golden["ids"].tolist(), golden["made"].tolist(), golden["logits"]
    file = write_gguf(GOLDENS / name, tmp_path / f"{name}.gguf")
    with open_engine(file, EngineSettings(device=device, cache_dir=str(tmp_path))) as engine:
        found = engine.generate(ids, max_tokens=len(made), temperature=0, ignore_eos=True, logprobs=1)
    assert list(found.ids) == made
    row = logits[len(ids) - 1].astype(np.float64)
    expected = row.max() - np.log(np.exp(row).sum())
    # Keys and values in f16: 2e-3 of the largest logit, once for it and once for the sum of all.
    assert abs(found.logprobs[0].logprob - expected) < 4e-3 * np.abs(row).max()


@pytest.mark.parametrize("types", [all_f32, blocks])
@pytest.mark.parametrize("name", MODELS)
def test_both_executors_read_the_blocks_of_a_file_alike(name: str, types: TypeOf, tmp_path: Path) -> None:
    file = write_gguf(GOLDENS / name, tmp_path / f"{name}.gguf", types)
    firsts = []
    for device in ("numpy", "wgpu"):
        with open_engine(file, EngineSettings(device=device, cache_dir=str(tmp_path))) as engine:
            found = engine.generate("the last train", max_tokens=1, temperature=0, logprobs=5)
        firsts.append(dict(found.logprobs[0].top))
    assert set(firsts[0]) == set(firsts[1])
    # Both read the same values; on a GPU some matrices become f16, 11 bits of a weight, and so do keys and values.
    assert all(abs(firsts[0][token] - firsts[1][token]) < 0.05 for token in firsts[0])
