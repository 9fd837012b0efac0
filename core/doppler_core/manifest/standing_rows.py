"""What a row of the standing table is: for a field, what each built-in model type does with it, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Standing = Literal["implemented", "permission", "not for this model type", "must be off", "metadata"]
MODEL_TYPES = ("embedding", "causal", "diffusion_gemma")


@dataclass(frozen=True)
class Rule:
    """What one model type does with a field. `only`: the values it takes; None = all that the field's type allows.

    A null value is always taken: it means "as the checkpoint says", or that there is nothing of the kind.
    reason: in place of the row's, where this model type has another.
    """

    standing: Standing
    only: tuple[Any, ...] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A field's JSON path, the rule of each of MODEL_TYPES, and the reason shown with it."""

    path: str
    rules: Mapping[str, Rule]
    reason: str


def used(*only: Any) -> Rule:
    """The field does what it says; other values than `only`, if given, are an error."""
    return Rule("implemented", only or None)


def off(*only: Any) -> Rule:
    """The model type has nothing of the kind: any other value than `only` is an error."""
    return Rule("must be off", only)


def not_here(reason: str) -> Rule:
    """The model type has nothing of the kind, for a reason of its own, and takes any value."""
    return Rule("not for this model type", reason=reason)


MAY = Rule("permission")
NOT_HERE = Rule("not for this model type")
LABEL = Rule("metadata")


def rows(section: str, names: str, reason: str, *rules: Rule) -> Iterator[Row]:
    """A row for each of the space-separated names; one rule for all model types, or one each."""
    each = rules * len(MODEL_TYPES) if len(rules) == 1 else rules
    for name in names.split():
        path = f"{section}.{name}" if section else name
        yield Row(path, dict(zip(MODEL_TYPES, each, strict=True)), reason)
