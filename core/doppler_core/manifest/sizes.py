"""`architecture` and `text`: our own sections. Absent or null in a seed, written by resolve from the checkpoint."""

from typing import Annotated, Literal

from pydantic import Field

from doppler_core.manifest.base import Count, Items, Name, Objects, Positive, Section

# A list is made of the layers' types: a bound keeps a hostile count from filling the memory.
Layers = Annotated[int, Field(ge=1, le=10_000)]


class Architecture(Section):
    """`architecture`: the sizes of the text stack; max_seq_len in tokens.

    Sizes that not every stack has. Null is the plain case:
    global_head_dim, num_global_key_value_heads: those of the full layers; null = as the sliding layers'.
    attention_k_eq_v: the full layers' values are their keys, before norm and rotation.
    num_kv_shared_layers: so many last layers keep no keys and values, and read those of the last layer of their type
        that does.
    hidden_size_per_layer_input: values of a per-layer input; 0 or null = the stack has none.
    vocab_size_per_layer_input: rows of their table; null = vocab_size.
    """

    num_layers: Layers | None = None
    hidden_size: Positive | None = None
    intermediate_size: Positive | None = None
    num_attention_heads: Positive | None = None
    num_key_value_heads: Positive | None = None
    head_dim: Positive | None = None
    vocab_size: Positive | None = None
    max_seq_len: Positive | None = None
    global_head_dim: Positive | None = None
    num_global_key_value_heads: Positive | None = None
    attention_k_eq_v: bool | None = None
    num_kv_shared_layers: Count | None = None
    hidden_size_per_layer_input: Count | None = None
    vocab_size_per_layer_input: Positive | None = None


class Text(Section):
    """`text`: how texts become token ids, and what an embedding model offers.

    prompts: text put before a request's, by name; default_prompt_name: the one used when none is named.
    max_tokens: of one text, prompt, begin and end tokens included.
    dimensions: lengths a vector may be cut to, longest first.
    add_bos, add_eos: whether a begin and an end token surround the text.
    """

    prompts: Objects[str] | None = None
    default_prompt_name: Name | None = None
    max_tokens: Positive | None = None
    dimensions: Items[Positive] | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    similarity: Literal["cosine", "dot", "euclidean", "manhattan"] | None = None
