"""`architecture` and `text`: our own sections. Absent or null in a seed, written by resolve from the checkpoint."""

from typing import Annotated, Literal

from pydantic import Field

from doppler_core.manifest.base import Items, Name, Objects, Positive, Section

# A list is made of the layers' types: a bound keeps a hostile count from filling the memory.
Layers = Annotated[int, Field(ge=1, le=10_000)]


class Architecture(Section):
    """`architecture`: the sizes of the text stack; max_seq_len in tokens."""

    num_layers: Layers | None = None
    hidden_size: Positive | None = None
    intermediate_size: Positive | None = None
    num_attention_heads: Positive | None = None
    num_key_value_heads: Positive | None = None
    head_dim: Positive | None = None
    vocab_size: Positive | None = None
    max_seq_len: Positive | None = None


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
