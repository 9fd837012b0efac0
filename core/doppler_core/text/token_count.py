"""How many tokens a text has at least, told from its length alone: takes a loaded tokenizer, encodes nothing.

It holds where no character is dropped, joined with others, or taken for unknown along with its neighbours: for a
tokenizer of byte pairs with a token for every byte, as Gemma's is. Of any other nothing is said.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend

HUGE = 1 << 16  # characters: a shorter text is encoded in no time, and its tokens are better counted


def longest_token(backend: Backend, vocabulary: int) -> int | None:
    """The most characters of a text that one token stands for, of those with ids below `vocabulary`. None: unknown."""
    if not (_keeps_all(backend) and _spells_all(backend)):
        return None
    return max(len(backend.id_to_token(number) or "") for number in range(vocabulary))


def _spells_all(backend: Backend) -> bool:
    """Whether every text has tokens, and none of them is for what is unknown."""
    has_bytes = all(backend.token_to_id(f"<0x{byte:02X}>") is not None for byte in range(256))
    return bool(getattr(backend.model, "byte_fallback", False)) and has_bytes


def _keeps_all(backend: Backend) -> bool:
    """Whether a text has as many characters when its tokens are looked for as it came with."""
    added = [token for token in backend.get_added_tokens_decoder().values() if not token.special]
    takes_spaces = any(token.lstrip or token.rstrip for token in added)
    normalizer, cutting = _state(backend.normalizer), _state(backend.pre_tokenizer)
    replaces_alike = normalizer.get("type") == "Replace" and (
        len(normalizer["content"]) == len(normalizer["pattern"].get("String", "")) > 0
    )
    only_cuts = cutting.get("type") == "Split" and cutting["behavior"] != "Removed"
    return not takes_spaces and (not normalizer or replaces_alike) and (not cutting or only_cuts)


def _state(part: Any) -> Mapping[str, Any]:
    """What a part of a tokenizer is, as its file has it; nothing of None."""
    return {} if part is None else json.loads(part.__getstate__())
