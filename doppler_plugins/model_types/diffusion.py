"""The model type `diffusion_gemma`: a Gemma 4 stack that makes a canvas of tokens together, in steps of denoising."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Capabilities
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import standings
from doppler_core.plan.activations import f16_findings
from doppler_core.plan.attention import keep
from doppler_core.plan.builder import Builder
from doppler_core.plan.canvas_settings import canvas_settings
from doppler_core.plan.denoising import canvas_rows, canvas_states, next_canvas
from doppler_core.plan.findings import step_findings, tensor_findings
from doppler_core.plan.fuse import fuse
from doppler_core.plan.names import ENCODER, HEADS, TensorNames
from doppler_core.plan.op import Finding, Op, Plan, Step, Value
from doppler_core.plan.reading import agreed
from doppler_core.plan.room import Room
from doppler_core.plan.sizes import sizes
from doppler_core.plan.stack import Stack, embed
from doppler_core.plan.states import kv_states
from doppler_core.plan.steps import Steps
from doppler_core.plan.text_stack import block
from doppler_core.weights.tensor import Tensor

if TYPE_CHECKING:
    from doppler_plugins.model_types.diffusion_driver import DiffusionDriver

_LAST = "nothing reads what the encoder's last layer gives beside its keys and values"
_MANY = "a step has many rows: prompts are encoded, and canvases denoised, by the prefill list"
_DRAWN = "a canvas's tokens are drawn from its tally"


class DiffusionModelType:
    """Text in, text out, a canvas at a time.

    `encode` runs known tokens and keeps their keys and values; `denoise` takes the canvases of its slots one step on.
    One set of weights serves both; each has factors of its own for its layers.
    """

    name = "diffusion_gemma"
    architectures = ("DiffusionGemmaForBlockDiffusion",)

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """Its context is what the checkpoint says, or what the manifest was given."""
        return Capabilities(
            generates=True,
            streams_drafts=True,
            context_length=manifest.text.max_tokens or sizes(manifest).max_seq_len,
        )

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor], room: Room) -> Plan:
        """Both phases, from the manifest's `prefill` list."""
        listed = [Finding(row.where, row.standing, row.reason) for row in standings(manifest, self.name)]
        names, length = TensorNames(tensors), canvas_settings(manifest).canvas_length
        room = _with_room_for(room, length)
        kept, own = kv_states(manifest, room), canvas_states(manifest, room)
        lists = [Steps(manifest, "prefill", sizes(manifest).num_layers) for _ in range(2)]
        encode = Stack(Builder(lists[0], names), manifest, room.context_length, kept, scalars=ENCODER)
        denoise = Stack(Builder(lists[1], names), manifest, room.context_length, kept, canvas=True)
        _encode(encode)
        x = canvas_rows(denoise, own)
        for layer in denoise.layers:
            x = block(denoise, layer, x)
        progress = next_canvas(denoise, denoise.build.norm("final_norm", None, x, denoise.norm), own)
        for role, reason in (("lm_head", _MANY), ("sample", _DRAWN)):
            lists[1].void(role, None, reason)
        phases: dict[str, tuple[Op, ...]] = {
            "encode": tuple(encode.build.ops),
            "denoise": tuple(denoise.build.ops),
        }
        outputs: dict[str, tuple[Value, ...]] = {"encode": (), "denoise": (progress,)}
        reasons = dict.fromkeys(HEADS, "the head is tied to the token table (output.tieWordEmbeddings)")
        reasons[names.name("layer_scalar", encode.layers[-1].number, ENCODER)] = _LAST
        findings = (
            *listed,
            *f16_findings(manifest),
            *step_findings(lists),
            *tensor_findings(names, reasons),
        )
        largest = Step(max(room.chunk, room.slots * length), room.slots)
        model = manifest.output.model_base_id or ""
        return fuse(agreed(Plan(model, phases, outputs, findings, largest=largest)))

    def driver(self, opened: Opened) -> "DiffusionDriver":
        """Encodes the requests' prompts, and denoises their canvases together."""
        from doppler_plugins.model_types.diffusion_driver import DiffusionDriver

        return DiffusionDriver(opened)


def _encode(stack: Stack) -> None:
    """Known tokens to keys and values."""
    x = embed(stack)
    *others, last = stack.layers
    for layer in others:
        x = block(stack, layer, x)
    keep(stack, last, x, _LAST)


def _with_room_for(room: Room, length: int) -> Room:
    """Rings must have room for a canvas beside their window, as for a step's rows."""
    return (
        room
        if room.chunk >= length
        else Room(room.context_length, room.slots, length, room.snapshots, room.memory)
    )
