"""Gemma 4 E2B's plan without its weights: its publisher's tensor names and shapes, stored as the seed says."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from checkpoint_configs import gemma4_e2b
from plans import stored
from tensor_lists import FOLDER, Shapes, read_shapes

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

Change = Callable[[dict[str, Any]], None]


def e2b_shapes() -> Shapes:
    """Names and shapes of its publisher's tensors."""
    return read_shapes(FOLDER / "gemma4_e2b_tensors.tsv")


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
