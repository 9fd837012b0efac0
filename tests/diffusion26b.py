"""DiffusionGemma 26B-A4B's plan without its weights: its publisher's tensor names and shapes, stored as the seed says."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from checkpoint_configs import diffusiongemma
from plans import stored
from tensor_lists import FOLDER, Shapes, read_shapes

from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.load import load_manifest
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.resolve import resolve
from doppler_core.plan.activations import with_f32_activations
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.diffusion import DiffusionModelType

SEED = "diffusiongemma-26b-a4b-it-q4k-ehf16-af16"
ROOM = Room(context_length=8192, slots=4, chunk=512)
DECODER, ENCODER = 0.75, 0.5  # the layers' factors in the two phases

Change = Callable[[dict[str, Any]], None]


def diffusion_shapes() -> Shapes:
    """Names and shapes of its publisher's tensors."""
    return read_shapes(FOLDER / "diffusiongemma_tensors.tsv")


def diffusion_tensors(manifest: Manifest) -> dict[str, Tensor]:
    """Tensors without data, but for the layers' factors, which lowering reads."""

    def factor(name: str) -> Any:
        return np.array([ENCODER if "encoder" in name else DECODER], "<f2").view(np.uint8)

    return {
        name: dataclasses.replace(one, data=factor(name), dtype="f16")
        if name.endswith("layer_scalar")
        else one
        for name, one in stored(manifest, diffusion_shapes()).items()
    }


def diffusion_manifest(change: Change | None = None) -> Manifest:
    """The seed, changed if asked to, resolved from the publisher's config."""
    path = shipped_manifest(SEED)
    data = copy.deepcopy(parse_object(read_text(path), str(path)))
    if change is not None:
        change(data)
    return resolve(load_manifest(data), diffusiongemma(), None).manifest


def diffusion_plan(change: Change | None = None, room: Room = ROOM) -> Plan:
    """Its plan with activations in f32, checked."""
    manifest, changes = with_f32_activations(diffusion_manifest(change), "the test says so")
    plan = check(DiffusionModelType().lower(manifest, diffusion_tensors(manifest), room))
    return dataclasses.replace(plan, findings=(*changes, *plan.findings))
