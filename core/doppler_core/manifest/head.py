"""`inference.output`: the token table's scale, the logits, and what follows the last norm of an embedding model."""

from typing import Literal

from doppler_core.manifest.base import Items, Name, Positive, PositiveReal, Section


class Projection(Section):
    """A dense layer after pooling: outputs [outputSize] from [inputSize]; bias_tensor None = no bias."""

    weight_tensor: Name
    bias_tensor: Name | None
    input_size: Positive
    output_size: Positive
    activation: Literal["identity"]


class EmbeddingPostprocessor(Section):
    """Pooling over the tokens of a text, dense layers in order, normalisation.

    include_prompt: whether the prompt's tokens are pooled too.
    normalize: "l2" or None.
    """

    pooling_mode: Literal["mean", "last"]
    include_prompt: bool
    projections: Items[Projection]
    normalize: Literal["l2"] | None


class OutputHead(Section):
    """`inference.output`.

    final_logit_softcapping: c * tanh(logits / c); None = off.
    scale_embeddings: rows times sqrt(hiddenSize); embedding_scale: times this number instead.
    embedding_transpose: the table lies [hidden, vocabulary].
    embedding_vocab_size: rows of a padded table; None = the vocabulary's.
    logit_input_scale: factor on the last hidden state before the head.
    """

    final_logit_softcapping: PositiveReal | None
    tie_word_embeddings: bool | None
    scale_embeddings: bool
    embedding_transpose: bool
    embedding_vocab_size: Positive | None
    embedding_postprocessor: EmbeddingPostprocessor | None
    embedding_scale: PositiveReal | None
    logit_input_scale: PositiveReal
