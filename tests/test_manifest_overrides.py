"""Sizes of full layers in overrides by layer number mean what the publishers' own keys mean."""

from typing import Any

import pytest
from checkpoint_configs import gemma4_e2b

from doppler_core.errors import ManifestError
from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.layer_overrides import without_overrides
from doppler_core.manifest.load import load_manifest
from doppler_core.manifest.resolve import resolve

E2B = "gemma-4-e2b-it-q4k-ehf16-af32"
FULL = (4, 9, 14, 19, 24, 29, 34)


def overridden(**sizes: int) -> dict[str, Any]:
    """E2B's config as transformers 5 writes it."""
    config = gemma4_e2b()
    text = dict(config["text_config"])
    text.pop("global_head_dim"), text.pop("num_global_key_value_heads", None)
    return config | {"text_config": text | {"per_layer_config": {str(layer): sizes for layer in FULL}}}


def test_overrides_give_the_full_layers_their_width() -> None:
    seed = load_manifest(shipped_manifest(E2B))
    published = resolve(seed, gemma4_e2b(), None).manifest
    assert resolve(seed, overridden(head_dim=512), None).manifest == published
    assert published.architecture.global_head_dim == 512


def test_overrides_may_give_key_heads_too() -> None:
    text = without_overrides(overridden(head_dim=512, num_key_value_heads=2))["text_config"]
    assert (text["global_head_dim"], text["num_global_key_value_heads"]) == (512, 2)
    assert "per_layer_config" not in text


def test_a_config_of_a_text_stack_alone_is_read_alike() -> None:
    assert without_overrides({"per_layer_config": {"1": {"head_dim": 32}}}) == {"global_head_dim": 32}
    plain = {"head_dim": 16}
    assert without_overrides(plain) is plain


def test_layers_that_differ_are_refused() -> None:
    config = {"per_layer_config": {"1": {"head_dim": 32}, "3": {"head_dim": 64}}}
    with pytest.raises(ManifestError, match="one head_dim in all layers"):
        without_overrides(config)
