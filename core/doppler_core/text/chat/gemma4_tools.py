"""Tools as Gemma 4 is told of them: takes a Tool, gives the pieces of its declaration.

    declaration:NAME{description:..,parameters:{properties:{KEY:{..},..},required:[..],type:<|"|>OBJECT<|"|>}}

It is the publisher's template letter by letter, its odd commas included, wherever that tells the whole schema. Where
the template leaves something out, this does not: a property named as a word of the schemas (`type`, `description`, ...)
stands like any other; types beside the first, an enum of numbers, and every keyword that the template has no word for
(`anyOf`, `default`, `minimum`, `$ref`, ...) follow as data, keys in quotes, the way the template itself writes what it
does not know within `items`.
"""

from collections.abc import Mapping
from typing import Any

from doppler_core.text.chat.form import Piece
from doppler_core.text.chat.gemma4_values import braced, in_order, key_pieces, quoted, separated, value_pieces
from doppler_core.text.chat.messages import Tool
from doppler_core.text.chat.schema import Schema, plain_schema


def declaration(tool: Tool) -> list[Piece]:
    """The pieces between <|tool> and <tool|>. Raises InputError for parameters that are no whole JSON schema."""
    items: list[list[Piece]] = [["description:", *quoted(tool.description)]]
    if tool.parameters:
        schema = plain_schema(tool.parameters, f"tool {tool.name}: parameters")
        if schema.get("description") == tool.description:
            del schema["description"]
        items.append(["parameters:", *_parameters(schema)])
    return [f"declaration:{tool.name}", *braced(items)]


def _parameters(schema: Schema) -> list[Piece]:
    items: list[list[Piece]] = []
    if schema.get("properties"):
        items.append(["properties:", *_properties(schema["properties"])])
    if schema.get("required"):
        items.append(["required:", *value_pieces(schema["required"])])
    items += _others(schema, ("properties", "required", "type", "$defs"))
    if "$defs" in schema:
        items.append(["$defs:", *_properties(schema["$defs"])])
    return braced([*items, ["type:", *quoted("OBJECT")]])


def _properties(schemas: Mapping[str, Schema]) -> list[Piece]:
    return braced([*key_pieces(key), ":", *_property(schema)] for key, schema in in_order(schemas))


def _property(schema: Schema) -> list[Piece]:
    said = ["description", "nullable", "enum", "type"]
    first: list[list[Piece]] = []
    if schema.get("description"):
        first.append(["description:", *value_pieces(schema["description"], quote_keys=True)])
    if schema.get("nullable"):
        first.append(["nullable:true"])
    if "enum" in schema:
        first.append(["enum:", *value_pieces(schema["enum"], quote_keys=True)])
    # The template's own commas: one before each of these, and none after them unless something stood before.
    inner: list[Piece] = []
    if schema.get("type") == "object":
        said += ["properties", "required"]
        inner += [",properties:", *_properties(schema.get("properties", {}))]
        if schema.get("required"):
            inner += [",required:", *value_pieces(schema["required"])]
    elif schema.get("type") == "array" and isinstance(schema.get("items", {}), Mapping):
        said.append("items")
        if schema.get("items"):
            inner += [",items:", *_items(schema["items"])]
    others = _others(schema, said)
    pieces = [*separated(first), *inner]
    if others:
        pieces += [*([","] if pieces else []), *separated(others)]
    if "type" in schema or not (others or "enum" in schema):
        pieces += [*([","] if first or others else []), "type:", *_type(schema.get("type", ""))]
    return ["{", *pieces, "}"]


def _items(schema: Schema) -> list[Piece]:
    items: list[list[Piece]] = []
    for key, value in in_order(schema):
        if key == "properties":
            pieces = _properties(value)
        elif key == "type":
            pieces = _type(value)
        else:
            pieces = value_pieces(value, quote_keys=True)
        items.append([*key_pieces(key), ":", *pieces])
    return braced(items)


def _others(schema: Schema, said: list[str] | tuple[str, ...]) -> list[list[Piece]]:
    """The keywords that have no place of their own."""
    return [
        [*key_pieces(key), ":", *value_pieces(value, quote_keys=True)]
        for key, value in in_order(schema)
        if key not in said
    ]


def _type(types: Any) -> list[Piece]:
    if isinstance(types, list):
        return ["[", *separated(_type(one) for one in types), "]"]
    return quoted(types.upper()) if isinstance(types, str) else value_pieces(types, quote_keys=True)
