"""From the last hidden state to the next token, as ops: the head, soft cap, sampling, counting, and the next step's row.

What a step does not ask for does not run (`Op.when`): greedy or draw, log-probabilities, counting, advancing.
"""

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest
from doppler_core.plan.builder import Builder
from doppler_core.plan.op import ROWS, Dim, Scalar, State, Value
from doppler_core.plan.room import Room
from doppler_core.plan.sampling import TOP_LOGPROBS
from doppler_core.plan.sizes import sizes
from doppler_core.plan.stack import Stack
from doppler_core.weights.tensor import Tensor


def sampling_states(manifest: Manifest, room: Room) -> dict[str, State]:
    """What adjusts logits, by name: tokens counted (top bit: it stands in the prompt), bias added, bits of those allowed."""
    vocabulary = sizes(manifest).vocab_size
    return {
        "counts": State("counts", (room.slots, vocabulary), "u32"),
        "bias": State("bias", (room.slots, vocabulary), "f32"),
        "mask": State("mask", (room.slots, -(-vocabulary // 32)), "u32"),
    }


def next_token(stack: Stack, hidden: Value, role: str, states: dict[str, State]) -> tuple[Value, Value]:
    """The token chosen for each slot, [S, 1], and its log-probabilities, [S, words], both u32 (plan.sampling).

    role: `lm_head`, or `lm_head_prefill` for steps of several rows.
    """
    build, logits = stack.build, _logits(stack, hidden, role)
    size: dict[str, Scalar] = {"columns": logits.columns}
    count: dict[str, Scalar] = {"vocabulary": logits.columns}
    sampled = Value("sampled", ("S", 1), "u32")
    build.emit("sample", "sample", None, [logits], sampled, params=size, when="greedy")
    adjusting = [logits, states["counts"], states["bias"], states["mask"]]
    adjusted = build.emit("adjust", "adjust", None, adjusting, logits.shape, params=size, when="draw")
    build.emit("draw", "draw", None, [adjusted], sampled, params=size, when="draw")
    logprobs = Value("logprobs", ("S", 2 + 2 * TOP_LOGPROBS), "u32")
    build.emit("logprobs", "logprobs", None, [logits, sampled], logprobs, params=size, when="logprobs")
    build.emit(
        "count", "count", None, [sampled, states["counts"]], states["counts"], params=count, when="count"
    )
    build.emit("advance", "advance", None, [sampled], ROWS, params=count, when="advance")
    return sampled, logprobs


def _logits(stack: Stack, hidden: Value, role: str) -> Value:
    """hidden x head^T, capped if the manifest caps: `logits`, [S, vocabulary]."""
    build, output = stack.build, stack.manifest.inference.output
    vocabulary, cap = stack.sizes.vocab_size, output.final_logit_softcapping
    weight = head_weight(build, stack.manifest)
    if weight.shape[0] != vocabulary:
        raise PlanError(f"{weight.name}: expected {vocabulary} rows (architecture), found {weight.shape[0]}")
    shape: tuple[Dim, ...] = ("S", vocabulary)
    note = "output.tieWordEmbeddings" if output.tie_word_embeddings else ""
    if cap is None:
        return build.matmul(role, None, hidden, weight, note, Value("logits", shape))
    logits = build.matmul(role, None, hidden, weight, note, Value("uncapped_logits", shape))
    return build.emit(
        "softcap",
        "softcap",
        None,
        [logits],
        Value("logits", shape),
        params={"cap": cap, "columns": vocabulary},
        note="output.finalLogitSoftcapping",
    )


def head_weight(build: Builder, manifest: Manifest) -> Tensor:
    """The token table where the head is tied to it, else the head's own tensor."""
    tied = manifest.inference.output.tie_word_embeddings
    if tied is None:
        raise PlanError(
            "output.tieWordEmbeddings is null: a plan needs a manifest resolved against its checkpoint"
        )
    if tied:
        return build.names.tensor("embed", None)
    return build.names.head()
