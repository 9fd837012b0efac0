"""Fusion: neighbouring ops of a lowered plan made one, where the later op's value is all that anybody reads.

Each rule is an identity of the meanings; it is applied only where a kernel of the two can do the work of both, and
says so in the op's note. A fused op stands in the place, and writes the value, of the later one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import HOST, Op, Plan
from doppler_core.plan.signature import bind_operands, fits, kernel_params, override_values

Rule = Callable[[Op, Op], Op | None]
Rules = Mapping[tuple[str, str], Rule]  # by the meanings of the two ops


def fuse(plan: Plan) -> Plan:
    """The plan with every rule applied as far as its kernels allow."""
    phases = {phase: fuse_pairs(ops, plan.kept(phase), RULES) for phase, ops in plan.phases.items()}
    return dataclasses.replace(plan, phases=phases)


def fuse_pairs(ops: Sequence[Op], kept: Sequence[str], rules: Rules) -> tuple[Op, ...]:
    """The ops of a phase, pairs that a rule for their meanings joins made one."""
    readers: dict[str, int] = dict.fromkeys(kept, 1)
    for op in ops:
        for value in op.inputs:
            readers[value.name] = readers.get(value.name, 0) + 1
    done: dict[str, Op] = {}  # the last op so far that writes a value
    gone: set[int] = set()
    made: list[Op] = []
    for op in ops:
        current = op
        for value in op.inputs:
            earlier = done.get(value.name)
            if earlier is None or readers[value.name] != 1:
                continue
            fused = _joined(earlier, current, rules)
            if fused is not None:
                gone.add(id(earlier))
                current = fused
        made.append(current)
        done[current.output.name] = current
    return tuple(op for op in made if id(op) not in gone)


def _joined(first: Op, second: Op, rules: Rules) -> Op | None:
    """One op for two, or None: no rule joins them, or the kernel can't do it."""
    rule = rules.get((first.meaning, second.meaning))
    fused = None if rule is None or first.when or second.when else rule(first, second)
    return fused if fused is not None and runs(fused) else None


def runs(op: Op) -> bool:
    """Whether the op's kernel takes all that the op asks for."""
    if op.kernel.file == HOST:
        return False
    row = signature(op.kernel)
    try:
        bind_operands(row, op)
        override_values(row, op)
        kernel_params(row, op)
    except PlanError:
        return False
    return row.meaning == op.meaning and fits(row, op)


def fused_note(kept: Op, lost: Op) -> str:
    """What is to be said of both, and what was fused; where the lost op's kernel came from is of no interest."""
    said = [part for part in lost.note.split("; ") if not part.startswith("kernel of")]
    parts = dict.fromkeys(part for part in (*kept.note.split("; "), *said) if part)
    return "; ".join([*parts, f"fused: {lost.role}"])


def _norm_and_residual(norm: Op, residual: Op) -> Op | None:
    """norm(h) + x, times the sum's gain: x is the norm's residual."""
    others = [value for value in residual.inputs if value.name != norm.output.name]
    if len(norm.inputs) != 1 or len(others) != 1 or "gain" in norm.params:
        return None
    gain = {"gain": residual.params["gain"]} if "gain" in residual.params else {}
    return dataclasses.replace(
        norm,
        inputs=(norm.inputs[0], others[0]),
        output=residual.output,
        params={**norm.params, **gain},
        note=fused_note(norm, residual),
    )


def _norm_and_rope(norm: Op, rope: Op) -> Op | None:
    """The rotation of normed heads: each head is normed by the weight before it is turned."""
    if len(norm.inputs) != 1 or not norm.weights or norm.params["columns"] != rope.params["head_dim"]:
        return None
    numerics = {name: norm.params[name] for name in ("eps", "offset")}
    return dataclasses.replace(
        rope,
        inputs=norm.inputs,
        weights=norm.weights,
        params={**rope.params, **numerics},
        note=fused_note(rope, norm),
    )


def _norm_and_store(norm: Op, store: Op) -> Op | None:
    """Keys and values into a state, each head of the values normed without a weight before."""
    key, value, state = store.inputs
    bare = len(norm.inputs) == 1 and not norm.weights and norm.params["columns"] == store.params["head_dim"]
    if not bare or value.name != norm.output.name or key.name == value.name:
        return None
    return dataclasses.replace(
        store,
        inputs=(key, norm.inputs[0], state),
        params={**store.params, "value_norm": True, "eps": norm.params["eps"]},
        note=fused_note(store, norm),
    )


RULES: Rules = {
    ("rmsnorm", "residual"): _norm_and_residual,
    ("rmsnorm", "rope"): _norm_and_rope,
    ("rmsnorm", "store"): _norm_and_store,
}
