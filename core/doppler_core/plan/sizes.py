"""The sizes of a text stack, out of a resolved manifest: numbers where the manifest's fields may still be null."""

from dataclasses import dataclass, fields

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest


@dataclass(frozen=True)
class Sizes:
    """`architecture` of a resolved manifest; max_seq_len in tokens."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_seq_len: int


def sizes(manifest: Manifest) -> Sizes:
    """The sizes; PlanError names those that no checkpoint has filled in, or that do not fit each other."""
    given = {field.name: getattr(manifest.architecture, field.name) for field in fields(Sizes)}
    missing = sorted(name for name, value in given.items() if value is None)
    if missing:
        raise PlanError(
            f"architecture: {missing} are null; a plan needs a manifest resolved against its checkpoint"
        )
    found = Sizes(**given)
    if found.num_attention_heads % found.num_key_value_heads:
        raise PlanError(
            f"architecture: {found.num_attention_heads} query heads can't share {found.num_key_value_heads} key heads evenly"
        )
    if found.head_dim % 2:
        raise PlanError(f"architecture.headDim is {found.head_dim}: rotation pairs need an even width")
    return found


def given(value: float | None, path: str) -> float:
    """A numeric field that must not be null by now."""
    if value is None:
        raise PlanError(f"{path} is null: a plan needs a manifest resolved against its checkpoint")
    return value
