"""The model type `causal`: a Gemma 3 or Gemma 4 text stack that makes one token after the other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Capabilities
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import standings
from doppler_core.plan.builder import Builder
from doppler_core.plan.cost import gpu_resident
from doppler_core.plan.findings import step_findings, tensor_findings
from doppler_core.plan.fuse import fuse
from doppler_core.plan.layers import layers
from doppler_core.plan.names import HEADS, TensorNames
from doppler_core.plan.next_token import next_token, sampling_states
from doppler_core.plan.op import Finding, Op, Plan, Step, Value
from doppler_core.plan.per_layer_inputs import gathered_on_host, materialization_finding
from doppler_core.plan.reading import agreed
from doppler_core.plan.room import Room
from doppler_core.plan.sizes import sizes
from doppler_core.plan.stack import Stack
from doppler_core.plan.states import kv_states
from doppler_core.plan.steps import Steps
from doppler_core.plan.text_stack import hidden_states
from doppler_core.weights.tensor import Tensor

if TYPE_CHECKING:
    from doppler_plugins.model_types.causal_driver import CausalDriver

Phase = Literal["prefill", "decode"]
HEAD_ROLES: Mapping[Phase, str] = {"prefill": "lm_head_prefill", "decode": "lm_head"}


class CausalModelType:
    """Text in, text out.

    `prefill` takes steps of several rows, prompts and the next tokens of several sequences alike; `decode` takes
    one row.
    """

    name = "causal"
    architectures = (
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
    )

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """Its context is what the checkpoint says, or what the manifest was given."""
        return Capabilities(
            generates=True,
            structured=True,
            logprobs=True,
            context_length=manifest.text.max_tokens or sizes(manifest).max_seq_len,
        )

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor], room: Room) -> Plan:
        """Two phases, from the manifest's `prefill` and `decode` lists, fused where the kernels can do it."""
        mode = manifest.session.per_layer_inputs.materialization
        plan = _lower(manifest, tensors, room, gathered_on_host(mode, 0, None))
        if gathered_on_host(mode, gpu_resident(plan), room.memory):
            plan = _lower(manifest, tensors, room, on_host=True)
        return plan

    def driver(self, opened: Opened) -> "CausalDriver":
        """Merges the requests under way into steps, and hands out what they sample."""
        from doppler_plugins.model_types.causal_driver import CausalDriver

        return CausalDriver(opened)


def _lower(manifest: Manifest, tensors: Mapping[str, Tensor], room: Room, on_host: bool) -> Plan:
    listed = [
        Finding(row.where, row.standing, row.reason) for row in standings(manifest, CausalModelType.name)
    ]
    names = TensorNames(tensors)
    kept, adjusting = kv_states(manifest, room), sampling_states(manifest, room)
    phases: dict[str, tuple[Op, ...]] = {}
    outputs: dict[str, tuple[Value, ...]] = {}
    lists: list[Steps] = []
    for phase, role in HEAD_ROLES.items():
        steps = Steps(manifest, phase, sizes(manifest).num_layers)
        stack = Stack(Builder(steps, names), manifest, room.context_length, kept)
        hidden = hidden_states(stack, last_only=phase == "prefill", on_host=on_host)
        outputs[phase] = next_token(stack, hidden, role, adjusting)
        phases[phase] = tuple(stack.build.ops)
        lists.append(steps)
    findings = (
        *listed,
        *step_findings(lists),
        *_materialization(manifest, names, on_host),
        *tensor_findings(names, _reasons(manifest, names)),
    )
    largest = Step(max(room.chunk, room.slots), room.slots)
    return fuse(agreed(Plan(manifest.output.model_base_id or "", phases, outputs, findings, largest=largest)))


def _materialization(manifest: Manifest, names: TensorNames, on_host: bool) -> list[Finding]:
    if not sizes(manifest).hidden_size_per_layer_input:
        return []
    mode = manifest.session.per_layer_inputs.materialization
    return [materialization_finding(mode, on_host, names.tensor("per_layer_embed", None))]


def _reasons(manifest: Manifest, names: TensorNames) -> dict[str, str]:
    """Why tensors that a checkpoint may have are not read."""
    sharing = {
        names.name(
            role, layer.number
        ): f"layer {layer.number} reads the keys and values of layer {layer.source}"
        for layer in layers(manifest)
        for role in ("k_proj", "v_proj", "k_norm")
        if not layer.owns
    }
    tied = "the head is tied to the token table (output.tieWordEmbeddings)"
    return {**sharing, **dict.fromkeys(HEADS, tied)}
