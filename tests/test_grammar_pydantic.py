"""What pydantic writes as a schema is held, and what a model draws under it is what pydantic reads."""

from __future__ import annotations

import datetime as dt
import enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, SecretStr

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Tool, ToolCall
from doppler_core.text.grammar.form import JsonSchema
from doppler_core.text.grammar.schema import read_schema
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.tool_grammar import tool_grammar
from doppler_core.text.tokenizer import Tokenizer
from tests.grammars import drawn, open_table, read_reply, text_of

Opened = tuple[Tokenizer, TokenTable]
Short = Annotated[str, Field(max_length=6)]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "deep blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Short


class Node(BaseModel):
    model_config = ConfigDict(extra="forbid")
    label: Short
    below: list[Node] = Field(default=[], max_length=1)


class Everything(BaseModel):
    """A docstring."""

    description: Short
    type: Literal["bug", "task", 3]
    colour: Colour = Colour.RED
    pet: Cat | Dog = Field(discriminator="kind")
    node: Node | None = None
    pets: Annotated[list[Cat | Dog], Field(max_length=2)] = []
    pair: tuple[int, Short]
    counts: Annotated[dict[str, int], Field(max_length=1)]
    share: Annotated[float, Field(gt=0, lt=1)]
    code: Annotated[str, Field(pattern=r"^[A-Z]{3}-\d{2}$")]
    day: dt.date
    moment: dt.datetime
    clock: dt.time
    span: dt.timedelta
    key: UUID
    address: IPv4Address
    site: AnyUrl
    file: Path | None
    secret: Annotated[SecretStr, Field(max_length=4)]
    even: Annotated[int, Field(multiple_of=2, ge=-10, le=10)]
    extra: bool | Annotated[list[bool], Field(max_length=2)] | None = None


class Words(RootModel[Annotated[list[Short], Field(min_length=1, max_length=3)]]):
    pass


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


@pytest.mark.parametrize("model", [Everything, Node, Words])
def test_json_drawn_under_a_models_schema_is_read_by_the_model(
    model: type[BaseModel], opened: Opened
) -> None:
    grammar = JsonSchema(model.model_json_schema())
    for seed in range(40):
        model.model_validate_json(text_of(opened[0], drawn(*opened, grammar, seed, most=20_000)))


def test_calls_drawn_under_a_models_schema_are_read_by_the_model(opened: Opened) -> None:
    grammar = tool_grammar([Tool("do", "", Everything.model_json_schema())], "do", parallel=False)
    for seed in range(40):
        (call,) = read_reply(opened[0], drawn(*opened, grammar, seed, most=20_000))
        assert isinstance(call, ToolCall)
        Everything.model_validate(call.arguments)


def test_what_a_grammar_cant_hold_of_a_models_schema_is_named() -> None:
    class Tagged(BaseModel):
        tags: set[str]

    with pytest.raises(InputError, match=r"^schema: #/properties/tags: uniqueItems: "):
        read_schema(Tagged.model_json_schema())


def test_the_schema_of_anything_is_anything(opened: Opened) -> None:
    class Loose(BaseModel):
        model_config = ConfigDict(extra="allow")
        value: Any

    schema = Loose.model_json_schema()
    assert schema["additionalProperties"] is True
    for seed in range(40):
        Loose.model_validate_json(text_of(opened[0], drawn(*opened, JsonSchema(schema), seed, most=100_000)))
