"""Unions that hold themselves, as trees and expressions do: branches of a oneOf are told apart, or it is said that they can't be."""

from typing import Any

import pytest

from doppler_core.errors import InputError
from doppler_core.text.grammar.schema import read_schema
from tests.grammars import record


def node(kind: str, *keys: str) -> dict[str, Any]:
    inner = {"$ref": "#/$defs/Expr"}
    return record("kind", {"const": kind}) | {
        "properties": {"kind": {"const": kind}, **dict.fromkeys(keys, inner)},
        "required": [*keys, "kind"],
    }


@pytest.mark.parametrize("last", ["kind", "zone"])
def test_a_union_that_holds_itself_is_told_apart_by_its_const_wherever_that_stands(last: str) -> None:
    """Its branches' other properties hold the union again: to look into them first would never end."""
    union = {"oneOf": [node("add", "left", last + "s"), node("mul", "left", last + "s"), node("leaf")]}
    assert read_schema({"$ref": "#/$defs/Expr", "$defs": {"Expr": union}})


def test_a_union_that_holds_itself_and_has_nothing_to_tell_by_is_an_error() -> None:
    def branch(title: str) -> dict[str, Any]:
        return record("left", {"$ref": "#/$defs/Expr"}) | {"title": title}

    union = {"oneOf": [branch("a"), branch("b"), {"type": "integer"}]}
    with pytest.raises(InputError, match="a value may fit both 0 and 1"):
        read_schema({"$ref": "#/$defs/Expr", "$defs": {"Expr": union}})
