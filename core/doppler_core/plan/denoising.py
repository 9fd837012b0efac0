"""A denoising step of DiffusionGemma as ops, around the layers: what goes into the first, and what their last gives.

    x = norm(embed(canvas) + down(gelu(gate(n)) * up(n))), n = norm(soft of the step before): zeros before the first
    logits = soft cap(norm(layers(x)) E^T), a tile of the vocabulary at a time: tallied, and blended into the next soft
    then the samples, the entropies, and the canvas of the next step (plan.canvas)
The token table is read once a step: a tile's logits are used up before the next tile's are made.
"""

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest
from doppler_core.plan.canvas import BLOCK
from doppler_core.plan.canvas_meaning import HEAD
from doppler_core.plan.canvas_settings import canvas_settings
from doppler_core.plan.feed_forward import gated
from doppler_core.plan.next_token import head_weight
from doppler_core.plan.op import ROWS, Scalar, Section, State, Value
from doppler_core.plan.room import Room
from doppler_core.plan.sizes import sizes
from doppler_core.plan.stack import Stack, embed
from doppler_core.weights.tensor import Tensor

TILE = 8192  # tokens whose logits exist at one time
_NOTE = "diffusionGemma"
_SOFT = "diffusionGemma.selfConditioning"
_SOFT_ROLES = ("soft_gate", "soft_up", "soft_activation", "soft_down")


def canvas_states(manifest: Manifest, room: Room) -> dict[str, State]:
    """What is kept of each slot's canvas from step to step (plan.canvas), by name."""
    length, architecture = canvas_settings(manifest).canvas_length, sizes(manifest)
    count = room.slots * length
    blocks = -(-architecture.vocab_size // BLOCK)
    return {
        "canvas": State("canvas", (count, 4), "u32", length),
        "noise": State("noise", (count, 2), "u32", length),
        "tally": State("tally", (count, HEAD + 4 * blocks), "u32", length),
        "soft": State("soft", (count, architecture.hidden_size), "f32", length),
    }


def canvas_rows(stack: Stack, states: dict[str, State]) -> Value:
    """The rows that go into the first layer, [T, hidden]."""
    build, canvas, soft = stack.build, states["canvas"], states["soft"]
    build.emit("seat", "seat", None, [canvas], ROWS, params={"capacity": canvas.capacity}, note=_NOTE)
    x = embed(stack)
    if canvas_settings(stack.manifest).self_conditioning:
        kept: dict[str, Scalar] = {"columns": soft.columns, "capacity": soft.capacity}
        recalled = build.emit("recall", "recall", None, [soft], x.shape, params=kept, note=_SOFT)
        n = build.norm("soft_norm", None, recalled, stack.norm, _SOFT)
        h = gated(stack, None, n, stack.sizes.intermediate_size, _SOFT_ROLES, _SOFT)
        x = build.residual("soft_residual", None, h, x, note=_SOFT)
    return build.norm("canvas_norm", None, x, stack.norm, _NOTE, weighted=False)


def next_canvas(stack: Stack, hidden: Value, states: dict[str, State]) -> Value:
    """How each slot's canvas stands, u32 [S, 4]; the canvas itself is that of the next step. hidden [T, hidden]."""
    build, head = stack.build, head_weight(stack.build, stack.manifest)
    vocabulary, cap = stack.sizes.vocab_size, stack.manifest.inference.output.final_logit_softcapping or 0.0
    if head.shape != (vocabulary, hidden.columns):
        raise PlanError(
            f"{head.name}: expected shape {[vocabulary, hidden.columns]} (architecture), found {list(head.shape)}"
        )
    table = build.names.tensor("embed", None)
    for number, first in enumerate(range(0, vocabulary, TILE)):
        _tile(stack, hidden, head, table, states, number, Section(first, min(TILE, vocabulary - first)))
    return _settle(stack, hidden, head, states, cap)


def _tile(
    stack: Stack,
    hidden: Value,
    head: Tensor,
    table: Tensor,
    states: dict[str, State],
    number: int,
    section: Section,
) -> None:
    """The logits of a tile of tokens, tallied and blended."""
    build, cap = stack.build, stack.manifest.inference.output.final_logit_softcapping
    shape = (hidden.shape[0], section.count)
    logits = Value(f"tiles.{number}.logits", shape)
    raw = Value(f"tiles.{number}.uncapped_logits", shape) if cap is not None else logits
    build.matmul("lm_head_prefill", None, hidden, head, _NOTE, raw, section)
    if cap is not None:
        params: dict[str, Scalar] = {"cap": cap, "columns": section.count}
        build.emit(
            "softcap", "softcap", None, [raw], logits, params=params, note="output.finalLogitSoftcapping"
        )
    tally, soft = states["tally"], states["soft"]
    place: dict[str, Scalar] = {"columns": section.count, "first": section.first, "capacity": tally.capacity}
    build.emit("tally", "tally", None, [logits, tally], tally, params=place, note=_NOTE)
    if canvas_settings(stack.manifest).self_conditioning:
        build.emit(
            "blend",
            "blend",
            None,
            [logits, tally, soft],
            soft,
            weights=[table],
            params={**place, "columns": soft.columns, "inner": section.count},
            note=_SOFT,
            section=section,
        )


def _settle(stack: Stack, hidden: Value, head: Tensor, states: dict[str, State], cap: float) -> Value:
    """Samples and entropies out of the tally, and what follows from them."""
    build, canvas, noise, soft = stack.build, states["canvas"], states["noise"], states["soft"]
    size: dict[str, Scalar] = {"capacity": canvas.capacity}
    vocabulary = head.shape[0]
    build.emit(
        "noise",
        "noise",
        None,
        [noise],
        noise,
        params={**size, "vocabulary": vocabulary},
        note=_NOTE,
        when="random",
    )
    picks = build.emit(
        "pick",
        "pick",
        None,
        [hidden, states["tally"], noise],
        Value("picks", (hidden.shape[0], 4), "u32"),
        weights=[head],
        params={**size, "columns": vocabulary, "inner": hidden.columns, "cap": cap},
        note=_NOTE,
    )
    if canvas_settings(stack.manifest).self_conditioning:
        build.emit(
            "soften",
            "soften",
            None,
            [picks, soft],
            soft,
            params={**size, "columns": soft.columns, "scale": stack.embedding_scale},
            note=_SOFT,
        )
    progress = build.emit(
        "progress",
        "progress",
        None,
        [picks, canvas],
        Value("progress", ("S", 4), "u32"),
        params=size,
        note=_NOTE,
    )
    build.emit("accept", "accept", None, [picks, noise, canvas], canvas, params=size, note=_NOTE)
    return progress
