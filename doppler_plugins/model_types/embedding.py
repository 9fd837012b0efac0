"""The model type `embedding`: a bidirectional Gemma 3 text stack, pooled, projected and normalised."""

from collections.abc import Mapping

from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Capabilities
from doppler_core.errors import ManifestError, PlanError
from doppler_core.manifest.head import EmbeddingPostprocessor
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import standings
from doppler_core.plan.builder import Builder
from doppler_core.plan.findings import step_findings
from doppler_core.plan.fuse import fuse
from doppler_core.plan.names import TensorNames
from doppler_core.plan.op import Finding, Plan, Step, Value
from doppler_core.plan.room import Room
from doppler_core.plan.sizes import sizes
from doppler_core.plan.stack import Stack
from doppler_core.plan.steps import Steps
from doppler_core.plan.text_stack import hidden_states
from doppler_core.text.prompt import NO_TITLE
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.embedding_driver import EmbeddingDriver

PHASE = "encode"
STEP_ROWS = 1024  # of a step where texts are shorter: enough to keep matrix products busy
STEP_TEXTS = 256


class EmbeddingModelType:
    """Text in, one vector out. The whole text is one pass: there is no cache and no `decode`."""

    name = "embedding"
    architectures = ("Gemma3TextModel",)

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """Its dimensions and prompts are what the checkpoint says."""
        text = manifest.text
        return Capabilities(
            embeds=True,
            context_length=text.max_tokens or sizes(manifest).max_seq_len,
            dimensions=tuple(text.dimensions or ()),
            prompts=tuple(text.prompts or ()),
            title_prompts=tuple(name for name, prompt in (text.prompts or {}).items() if NO_TITLE in prompt),
        )

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor], room: Room) -> Plan:
        """One phase, `encode`, from the manifest's `prefill` list: `decode` is checked and not run.

        Nothing is kept between steps: of `room`, only the longest text counts.
        """
        if not manifest.text.dimensions:
            raise ManifestError("text.dimensions is null: expected the lengths that a vector may have")
        if manifest.inference.attention.causal:
            raise ManifestError(
                "inference.attention.causal is true: the model type embedding is bidirectional"
            )
        steps = Steps(manifest, "prefill", sizes(manifest).num_layers)
        build = Builder(steps, TensorNames(tensors))
        output = _head(build, manifest, hidden_states(Stack(build, manifest, room.context_length)))
        not_run = Finding("execution.decode", "not run", "an embedding is one pass over the whole text")
        listed = [Finding(row.where, row.standing, row.reason) for row in standings(manifest, self.name)]
        findings = (*listed, *step_findings([steps]), not_run)
        plan = Plan(
            manifest.output.model_base_id or "",
            {PHASE: tuple(build.ops)},
            {PHASE: (output,)},
            findings,
            largest=Step(max(room.context_length, STEP_ROWS), STEP_TEXTS),
        )
        return fuse(plan)

    def driver(self, opened: Opened) -> EmbeddingDriver:
        """Packs the texts of all requests under way into steps."""
        return EmbeddingDriver(opened, self.capabilities(opened.manifest), PHASE)


def _head(build: Builder, manifest: Manifest, hidden: Value) -> Value:
    """Mean over the rows of each text, the dense layers, unit length. [T, hidden] -> [S, dimensions]."""
    head = manifest.inference.output.embedding_postprocessor
    if not isinstance(head, EmbeddingPostprocessor):
        raise ManifestError("inference.output.embeddingPostprocessor is null: an embedding model needs one")
    if head.pooling_mode != "mean" or not head.include_prompt or head.normalize != "l2":
        raise ManifestError(
            "inference.output.embeddingPostprocessor: expected poolingMode mean, includePrompt true and normalize l2, "
            f"found {head.pooling_mode}, {head.include_prompt} and {head.normalize}"
        )
    origin = "output.embeddingPostprocessor"
    columns = hidden.columns
    x = build.emit("pool", "pool", None, [hidden], ("S", columns), params={"columns": columns}, note=origin)
    for number, projection in enumerate(head.projections):
        if projection.bias_tensor is not None:
            raise ManifestError(
                f"{origin}.projections[{number}].biasTensor: expected null, found {projection.bias_tensor}"
            )
        weight = build.names.named(projection.weight_tensor)
        if weight.shape != (projection.output_size, projection.input_size):
            raise PlanError(
                f"{weight.name}: expected shape {[projection.output_size, projection.input_size]} ({origin}), "
                f"found {list(weight.shape)}"
            )
        x = build.matmul(f"dense.{number}", None, x, weight, note=origin)
    return build.emit("l2norm", "l2norm", None, [x], x.shape, params={"columns": x.columns}, note=origin)
