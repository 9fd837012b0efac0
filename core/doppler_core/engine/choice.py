"""How the tokens of a request are chosen: what it asks for, else what the checkpoint says, else the likeliest token.

The checkpoint speaks through its generation_config.json, in which a `do_sample` that is not true means temperature 0.
"""

import math
import secrets
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.sampling_check import check_sampling
from doppler_core.engine.token_mask import CheckedMask
from doppler_core.errors import FileFormatError, InputError
from doppler_core.plan.sampling import Sampling
from doppler_core.weights.files import read_json_object

_SEED_BITS = 64


@dataclass(frozen=True)
class Choice:
    """The settings of a slot, what is added to the logits of some tokens, what limits the next one, once it is there."""

    sampling: Sampling = field(default_factory=Sampling)
    bias: Mapping[int, float] = field(default_factory=dict)
    mask: Future[CheckedMask] | None = None


@dataclass(frozen=True)
class Defaults:
    """What a checkpoint says of generation: its end tokens, and how to choose where a request does not say."""

    end_ids: tuple[int, ...] = ()
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


def read_defaults(path: Path | None) -> Defaults:
    """The defaults of a generation_config.json, of None where there is no such file.

    FileFormatError: a value of a wrong type or size.
    """
    config: Mapping[str, Any] = {} if path is None else read_json_object(path)
    names = [one.name for one in fields(Defaults) if one.name != "end_ids"]
    said = {name: config[name] for name in names if config.get(name) is not None}
    said["temperature"] = said.get("temperature", 1.0) if config.get("do_sample") is True else 0.0
    try:
        check_sampling(GenerateRequest("", **said))
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error
    end = config.get("eos_token_id")
    ends = () if end is None else end if isinstance(end, list) else (end,)
    if not all(type(one) is int and one >= 0 for one in ends):
        raise FileFormatError(f"{path}: eos_token_id is {end!r}: expected a token id, or a list of them")
    return Defaults(tuple(ends), **said)


def choose(
    request: GenerateRequest,
    defaults: Defaults,
    mask: Future[CheckedMask] | None = None,
    forbidden: Collection[int] = (),
) -> Choice:
    """The choice of a request that has been checked.

    mask: what limits its tokens. forbidden: tokens that no answer can hold; a grammar's mask allows none of them anyway,
    as long as it does not name it, and with a bias beside it no token could be skipped.
    """
    bias = {int(token): float(value) for token, value in (request.logit_bias or {}).items()}
    if mask is None or request.mask is not None:
        bias |= dict.fromkeys(forbidden, -math.inf)
    return Choice(
        Sampling(
            temperature=float(_first(request.temperature, defaults.temperature)),
            top_k=int(_first(request.top_k, defaults.top_k)),
            top_p=float(_first(request.top_p, defaults.top_p)),
            min_p=float(_first(request.min_p, defaults.min_p)),
            presence=float(request.presence_penalty or 0.0),
            frequency=float(request.frequency_penalty or 0.0),
            repetition=float(_first(request.repetition_penalty, defaults.repetition_penalty)),
            seed=seed_of(request),
            biased=bool(bias),
            masked=mask is not None,
        ),
        bias,
        mask,
    )


def seed_of(request: GenerateRequest) -> int:
    """64 bits: the request's own, or another each time."""
    return secrets.randbits(_SEED_BITS) if request.seed is None else int(request.seed) % 2**_SEED_BITS


def _first(asked: float | None, default: float) -> float:
    return default if asked is None else asked
