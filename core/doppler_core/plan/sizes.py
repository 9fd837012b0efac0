"""The sizes of a text stack, out of a resolved manifest: numbers where the manifest's fields may still be null."""

from dataclasses import dataclass

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest

_NEEDED = (
    "num_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_seq_len",
)


@dataclass(frozen=True)
class Sizes:
    """`architecture` of a resolved manifest, its nulls replaced by what they stand for; max_seq_len in tokens."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_seq_len: int
    global_head_dim: int
    num_global_key_value_heads: int
    attention_k_eq_v: bool
    num_kv_shared_layers: int
    hidden_size_per_layer_input: int
    vocab_size_per_layer_input: int


def sizes(manifest: Manifest) -> Sizes:
    """The sizes; PlanError names those that no checkpoint has filled in, or that do not fit each other."""
    said = manifest.architecture
    needed = {name: getattr(said, name) for name in _NEEDED}
    missing = sorted(name for name, value in needed.items() if value is None)
    if missing:
        raise PlanError(
            f"architecture: {missing} are null; a plan needs a manifest resolved against its checkpoint"
        )
    found = Sizes(
        **needed,
        global_head_dim=said.global_head_dim or needed["head_dim"],
        num_global_key_value_heads=said.num_global_key_value_heads or needed["num_key_value_heads"],
        attention_k_eq_v=bool(said.attention_k_eq_v),
        num_kv_shared_layers=said.num_kv_shared_layers or 0,
        hidden_size_per_layer_input=said.hidden_size_per_layer_input or 0,
        vocab_size_per_layer_input=said.vocab_size_per_layer_input or needed["vocab_size"],
    )
    for pairs in (found.num_key_value_heads, found.num_global_key_value_heads):
        if found.num_attention_heads % pairs:
            raise PlanError(
                f"architecture: {found.num_attention_heads} query heads can't share {pairs} key heads evenly"
            )
    for name, width in (("headDim", found.head_dim), ("globalHeadDim", found.global_head_dim)):
        if width % 2:
            raise PlanError(f"architecture.{name} is {width}: rotation pairs need an even width")
    return found


def given(value: float | None, path: str) -> float:
    """A numeric field that must not be null by now."""
    if value is None:
        raise PlanError(f"{path} is null: a plan needs a manifest resolved against its checkpoint")
    return value
