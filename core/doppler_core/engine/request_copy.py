"""A request as it is submitted: takes one, gives one whose lists and mappings are its own.

It waits before it is read, and whoever submitted it may go on with them meanwhile: clear a batch, add to a conversation.
"""

from dataclasses import fields, replace
from typing import Any, TypeVar

from doppler_core.engine.request import EmbedRequest, GenerateRequest
from doppler_core.text.grammar.form import JsonSchema, Lark

RequestT = TypeVar("RequestT", bound=EmbedRequest | GenerateRequest)

_CHANGED = frozenset({list, tuple, dict, JsonSchema, Lark})
_DEEP = 64  # what lies deeper within each other is left as it is: no message or schema does, and a copy has to end


def own_copy(request: RequestT) -> RequestT:
    """The same request. What it holds besides lists, tuples, dicts and grammars is not copied."""
    return replace(request, **{one.name: _own(getattr(request, one.name)) for one in fields(request)})


def _own(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind not in _CHANGED or depth > _DEEP:
        return value
    if kind is JsonSchema:
        return JsonSchema(_own(value.schema, depth + 1))
    if kind is Lark:
        return Lark(value.text, _own(value.parts, depth + 1))
    if kind is dict:
        return {key: _own(one, depth + 1) for key, one in value.items()}
    if _CHANGED.isdisjoint(map(type, value)):  # many token ids, or texts
        return kind(value)
    return kind([_own(one, depth + 1) for one in value])
