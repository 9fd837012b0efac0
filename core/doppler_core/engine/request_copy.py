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
    made: dict[int, Any] = {}
    return replace(request, **{one.name: _own(getattr(request, one.name), made) for one in fields(request)})


def _own(value: Any, made: dict[int, Any], depth: int = 0) -> Any:
    """made: the copies so far, by what they are of: what comes often, perhaps within itself, is copied once."""
    kind = type(value)
    if kind not in _CHANGED or depth > _DEEP:
        return value
    if id(value) in made:
        return made[id(value)]
    if kind is JsonSchema:
        return JsonSchema(_own(value.schema, made, depth + 1))
    if kind is Lark:
        return Lark(value.text, _own(value.parts, made, depth + 1))
    if kind is dict:
        found = made[id(value)] = {}
        found.update((key, _own(one, made, depth + 1)) for key, one in value.items())
        return found
    if _CHANGED.isdisjoint(map(type, value)):  # many token ids, or texts
        return kind(value)
    if kind is list:
        made[id(value)] = copies = []
        copies += [_own(one, made, depth + 1) for one in value]
        return copies
    copy = made[id(value)] = tuple(_own(one, made, depth + 1) for one in value)
    return copy
