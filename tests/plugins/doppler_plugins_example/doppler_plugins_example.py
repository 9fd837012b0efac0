"""The model type `static_vectors`: a text's vector is the mean of its tokens' vectors, at unit length.

There is nothing to learn from the order of words, so there are no layers: gather, pool, normalise. Checkpoints of
this kind hold one table, `embed_tokens.weight`, shape [tokens, dimensions].
"""

from collections.abc import Mapping

from doppler_core.device.executor import Executor
from doppler_core.engine.request import Capabilities
from doppler_core.manifest.model import Manifest
from doppler_core.plan.builder import Builder
from doppler_core.plan.names import TensorNames
from doppler_core.plan.op import Plan
from doppler_core.plan.steps import Steps
from doppler_core.text.tokenizer import Tokenizer
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.embedding_driver import EmbeddingDriver

DOPPLER_PLUGINS_API = 1
PHASE = "encode"


class StaticVectors:
    """Text in, one vector out: as fast as reading a table."""

    name = "static_vectors"
    architectures = ("StaticVectorsModel",)

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """Its length limit and dimensions are the manifest's."""
        text = manifest.text
        return Capabilities(
            embeds=True,
            context_length=text.max_tokens or 0,
            dimensions=tuple(text.dimensions or ()),
            prompts=tuple(text.prompts or ()),
        )

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor]) -> Plan:
        """Three ops. The manifest names the kernel of the first, `embed`; pool and l2norm are the engine's own."""
        steps = Steps(manifest, "prefill", layers=0)
        build = Builder(steps, TensorNames(tensors))
        table = build.names.tensor("embed", None)
        columns = table.columns
        size = {"columns": columns}
        gathered = {**size, "scale": 1.0}
        x = build.emit("gather", "embed", None, [], ("T", columns), weights=[table], params=gathered)
        x = build.emit("pool", "pool", None, [x], ("S", columns), params=size)
        x = build.emit("l2norm", "l2norm", None, [x], ("S", columns), params=size)
        name = manifest.output.model_base_id or self.name
        return Plan(name, {PHASE: tuple(build.ops)}, {PHASE: x}, steps.findings())

    def driver(self, executor: Executor, tokenizer: Tokenizer, manifest: Manifest) -> EmbeddingDriver:
        """The driver of every embedding plan: it packs texts into steps and puts results in order."""
        return EmbeddingDriver(executor, tokenizer, manifest.text, self.capabilities(manifest), PHASE)
