"""`use_doppler`: this project's models for everything in LlamaIndex that is not told otherwise."""

from doppler_core.errors import InputError
from doppler_plugins.adapters.extras import missing_extra

try:
    from llama_index.core import Settings
except ModuleNotFoundError as error:
    raise missing_extra("llama-index", error) from error

from doppler_plugins.llama_index.embedding import DopplerEmbedding
from doppler_plugins.llama_index.llm import DopplerLLM


def use_doppler(llm: DopplerLLM | str, embed_model: DopplerEmbedding | str) -> None:
    """Set `Settings.llm`, `Settings.embed_model` and `Settings.tokenizer`, so that lengths are counted in the LLM's
    own tokens. Nothing is opened.

    A text is what the class takes as `model`. Call it before anything else in LlamaIndex: a splitter or prompt helper that
    was made already goes on counting as it did. Raises InputError for a model in the other's place.
    """
    chat = DopplerLLM(model=llm) if isinstance(llm, str) else llm
    embedding = DopplerEmbedding(model=embed_model) if isinstance(embed_model, str) else embed_model
    for name, one, expected in (("llm", chat, DopplerLLM), ("embed_model", embedding, DopplerEmbedding)):
        if not isinstance(one, expected):
            raise InputError(
                f"{name} is {type(one).__name__}: expected a {expected.__name__}, or a model's name"
            )
    Settings.llm, Settings.embed_model, Settings.tokenizer = chat, embedding, chat.tokenizer_fn
