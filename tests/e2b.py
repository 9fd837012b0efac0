"""Gemma 4 E2B's plan without its weights: its publisher's tensor names and shapes, stored as the seed says."""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from checkpoint_configs import gemma4_e2b
from plans import stored

from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.load import load_manifest
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.resolve import resolve
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.causal import CausalModelType

SEED = "gemma-4-e2b-it-q4k-ehf16-af32"
ROOM = Room(context_length=8192, slots=4, chunk=512)
SCALAR = 0.75
_TENSORS = Path(__file__).parent / "data" / "gemma4_e2b_tensors.tsv"

Change = Callable[[dict[str, Any]], None]


def e2b_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes. The file has a line for layers of one shape: the name with *, the shape, the layers' numbers."""
    return dict(_expanded(_TENSORS.read_text().splitlines()))


def _expanded(lines: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for line in lines:
        name, axes, *layers = line.split("\t")
        shape = () if axes == "-" else tuple(map(int, axes.split()))
        for numbers in layers[0].split(",") if layers else ():
            first, _, last = numbers.partition("-")
            for layer in range(int(first), int(last or first) + 1):
                yield name.replace("*", str(layer)), shape
        if not layers:
            yield name, shape


def e2b_tensors(manifest: Manifest) -> dict[str, Tensor]:
    """Tensors without data, but for the layers' factors, which lowering reads."""
    factor = np.array([SCALAR], "<f2").view(np.uint8)
    return {
        name: dataclasses.replace(one, data=factor, dtype="f16") if name.endswith("layer_scalar") else one
        for name, one in stored(manifest, e2b_shapes()).items()
    }


def e2b_manifest(change: Change | None = None) -> Manifest:
    """The seed, changed if asked to, resolved from the publisher's config."""
    path = shipped_manifest(SEED)
    data = copy.deepcopy(parse_object(read_text(path), str(path)))
    if change is not None:
        change(data)
    return resolve(load_manifest(data), gemma4_e2b(), None).manifest


def e2b_plan(change: Change | None = None, room: Room = ROOM) -> Plan:
    """Its plan, checked."""
    manifest = e2b_manifest(change)
    return check(CausalModelType().lower(manifest, e2b_tensors(manifest), room))
