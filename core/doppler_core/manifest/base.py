"""What every section of a manifest shares: strictness, JSON names, and the kinds of value. It knows no field."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic_core import PydanticCustomError

# Whole numbers stay exact in every JSON reader, JavaScript's included.
LARGEST_WHOLE = 2**53

_Item = TypeVar("_Item")


def json_name(attribute: str) -> str:
    """The seeds' spelling of an attribute: `rms_norm_eps` is `rmsNormEps`."""
    first, *rest = attribute.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class Section(BaseModel):
    """A JSON object of the manifest: no coercion, no unknown field, no change after loading."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=json_name, protected_namespaces=()
    )


def expected(what: str, where: str = "") -> PydanticCustomError:
    """An error that load.py turns into "<path><where>: expected <what>, found ..."."""
    return PydanticCustomError("manifest", "expected {what}", {"what": what, "where": where})


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, tuple):
        return value
    raise expected("a list")


def _as_scalar(value: Any) -> bool | int | float:
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= LARGEST_WHOLE):
        return value
    raise expected("true, false or a number")


def _plain_number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) <= LARGEST_WHOLE else value


Items = Annotated[tuple[_Item, ...], BeforeValidator(_as_tuple)]
Objects = Mapping[str, _Item]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
Positive = Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
Count = Annotated[int, Field(ge=0, le=LARGEST_WHOLE)]
# Written as 1000000, not 1000000.0, where the value is whole: as the seeds write it.
Real = Annotated[float, Field(allow_inf_nan=False), PlainSerializer(_plain_number)]
PositiveReal = Annotated[float, Field(gt=0, allow_inf_nan=False), PlainSerializer(_plain_number)]
# What f32 numbers are divided by, or compared with: so far from the ends of f32 that a request may scale it.
Moderate = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False), PlainSerializer(_plain_number)]
Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), PlainSerializer(_plain_number)]
# Any: a bool is also an int to Python, so the check is ours and the value stays what the JSON said.
Scalar = Annotated[Any, BeforeValidator(_as_scalar)]
Dtype = Literal["f16", "f32"]
