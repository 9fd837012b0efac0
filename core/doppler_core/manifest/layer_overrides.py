"""A config.json with sizes by layer number, as transformers 5 writes Gemma 4's, put the way publishers write them."""

from collections.abc import Mapping
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.manifest.problems import found
from doppler_core.manifest.sayings import Config, nested, text_config

_KEY = "per_layer_config"
# What a layer overrides, and the publishers' key for it: only full layers have sizes of their own.
_GLOBAL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}


def without_overrides(config: Config) -> Config:
    """The config with `global_head_dim` and `num_global_key_value_heads` in place of overrides by layer number.

    ManifestError: layers that override a size differ in it.
    """
    text, where = text_config(config)
    overrides = nested(text, _KEY, where)
    if overrides is None:
        return config
    flat = {key: value for key, value in text.items() if key != _KEY}
    for name, key in _GLOBAL.items():
        value = _common(overrides, name, f"{where}{_KEY}")
        if value is not None and flat.get(key) is None:
            flat[key] = value
    return flat if text is config else {**config, "text_config": flat}


def _common(overrides: Mapping[str, Any], name: str, where: str) -> Any:
    values = [
        own[name] for own in overrides.values() if isinstance(own, Mapping) and own.get(name) is not None
    ]
    if any(value != values[0] for value in values):
        raise ManifestError(
            f"{where}: expected one {name} in all layers that have their own, found {found(values)}"
        )
    return values[0] if values else None
