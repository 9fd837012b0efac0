"""The model type `static_vectors`: a text's vector is the mean of its tokens' vectors, at unit length.

There is nothing to learn from the order of words, so there are no layers: gather, pool, normalise. Checkpoints of
this kind hold one table, `embed_tokens.weight`, shape [tokens, dimensions].
"""

import json
from collections.abc import Mapping
from typing import Any

from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Capabilities
from doppler_core.manifest.model import Manifest
from doppler_core.plan.builder import Builder
from doppler_core.plan.findings import step_findings
from doppler_core.plan.names import TensorNames
from doppler_core.plan.op import Plan, Step
from doppler_core.plan.room import Room
from doppler_core.plan.steps import Steps
from doppler_core.settings import data_dir
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.embedding_driver import EmbeddingDriver

DOPPLER_PLUGINS_API = 1
PHASE = "encode"


class StaticVectors:
    """Text in, one vector out: as fast as reading a table."""

    name = "static_vectors"
    architectures = ("StaticVectorsModel",)

    def template(self) -> Mapping[str, Any]:
        """The manifest of a bare checkpoint: another embedding model's, with one step in place of its layers."""
        base = data_dir("manifests") / "templates" / "gemma3-text-embedding.json"
        manifest: dict[str, Any] = json.loads(base.read_text("utf-8"))
        kernels = {"embed": manifest["execution"]["kernels"]["embed"]}
        steps: dict[str, Any] = {"kernels": kernels, "decode": [], "prefill": [], "postLayer": []}
        return {
            **manifest,
            "modelType": self.name,
            "execution": {**manifest["execution"], **steps},
            "text": {"prompts": {"query": "", "document": ""}},
        }

    def capabilities(self, manifest: Manifest) -> Capabilities:
        """Its length limit, prompts and the length of its vectors are the checkpoint's."""
        return Capabilities(
            embeds=True,
            context_length=manifest.text.max_tokens or 0,
            dimensions=(manifest.architecture.hidden_size or 0,),
            prompts=tuple(manifest.text.prompts or ()),
        )

    def lower(self, manifest: Manifest, tensors: Mapping[str, Tensor], room: Room) -> Plan:
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
        findings = tuple(step_findings([steps]))
        largest = Step(max(room.context_length, room.chunk), 256)
        return Plan(name, {PHASE: tuple(build.ops)}, {PHASE: (x,)}, findings, largest=largest)

    def driver(self, opened: Opened) -> EmbeddingDriver:
        """The driver of every embedding plan: it packs texts into steps and puts results in order."""
        return EmbeddingDriver(opened, self.capabilities(opened.manifest), PHASE)
