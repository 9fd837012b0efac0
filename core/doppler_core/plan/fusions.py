"""Fusions that a kernel profile asks for: kernels that do the work of several ops, put in their place.

    rotated store      keys are normed and turned where they are stored
    rotated attention  queries are normed and turned where they ask
    gated product      gelu(gate) * up is made where it is multiplied
    normed products    a norm is made where up to three matrices multiply it; their products lie side by side
Each is an identity of the meanings, made where the kernel takes it and nobody else reads what lies between.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from doppler_core.plan.fuse import fuse_pairs, fused_note, runs
from doppler_core.plan.op import Kernel, Op, Plan, Scalar, Value

MOST_PRODUCTS = 3  # of one norm: the kernels bind as many matrices


@dataclass(frozen=True)
class Fusion:
    """One of a profile's fusions. kernel: that of the op it is for, None = any; replacement: the one that does both,
    None = the same."""

    kind: str
    reason: str
    kernel: tuple[str, str] | None = None
    replacement: Kernel | None = None

    def is_for(self, op: Op) -> bool:
        """Whether the op has the kernel that the fusion is for."""
        return self.kernel is None or self.kernel == (op.kernel.file, op.kernel.entry)


def apply_fusions(plan: Plan, fusions: Sequence[Fusion]) -> Plan:
    """The plan with each fusion made, in their order, wherever it can be."""
    phases = dict(plan.phases)
    for fusion in fusions:
        for phase, ops in phases.items():
            phases[phase] = KINDS[fusion.kind](ops, plan.kept(phase), fusion)
    return dataclasses.replace(plan, phases=phases)


def _rotated(second: str) -> Callable[[Sequence[Op], Sequence[str], Fusion], tuple[Op, ...]]:
    """Fuse a rotation into the first input of ops of a meaning."""

    def apply(ops: Sequence[Op], kept: Sequence[str], fusion: Fusion) -> tuple[Op, ...]:
        def join(rope: Op, other: Op) -> Op | None:
            clash = rope.weights and "eps" in other.params and other.params["eps"] != rope.params["eps"]
            if (
                other.inputs[0].name != rope.output.name
                or other.constants
                or clash
                or not fusion.is_for(other)
            ):
                return None
            numerics = {name: rope.params[name] for name in ("eps", "offset") if name in rope.params}
            return dataclasses.replace(
                other,
                inputs=(rope.inputs[0], *other.inputs[1:]),
                weights=rope.weights,
                constants=rope.constants,
                params={**other.params, **numerics},
                note=fused_note(other, rope),
            )

        return fuse_pairs(ops, kept, {("rope", second): join})

    return apply


def _gated(ops: Sequence[Op], kept: Sequence[str], fusion: Fusion) -> tuple[Op, ...]:
    def join(gelu: Op, product: Op) -> Op | None:
        if not fusion.is_for(product) or fusion.replacement is None:
            return None
        return dataclasses.replace(
            product,
            meaning="gated_matmul",
            kernel=fusion.replacement,
            inputs=gelu.inputs,
            params={**product.params, "up_first": gelu.params.get("up_first", 0)},
            origin="substituted",
            note=f"{fused_note(product, gelu)}: {fusion.reason}",
        )

    return fuse_pairs(ops, kept, {("gelu", "matmul"): join})


def _normed(ops: Sequence[Op], kept: Sequence[str], fusion: Fusion) -> tuple[Op, ...]:
    """Norms whose readers are all products go into them."""
    made = list(ops)
    for norm in ops:
        products = [op for op in made if any(value.name == norm.output.name for value in op.inputs)]
        joined = _join_products(norm, products, fusion) if norm.output.name not in kept else None
        changed = None if joined is None else _read_from(made, products, joined, kept)
        if joined is not None and changed is not None:
            place = next(index for index, op in enumerate(changed) if op is products[0])
            changed[place] = joined
            dropped = {id(op) for op in (norm, *products)}
            made = [op for op in changed if id(op) not in dropped]
    return tuple(made)


def _join_products(norm: Op, products: Sequence[Op], fusion: Fusion) -> Op | None:
    """The op that norms and multiplies; None where it can't be."""
    plain = (
        norm.meaning == "rmsnorm" and len(norm.inputs) == len(norm.weights) == 1 and "gain" not in norm.params
    )
    alike = all(op.meaning == "matmul" and not op.when and fusion.is_for(op) for op in products)
    if not plain or not alike or not 1 <= len(products) <= MOST_PRODUCTS or fusion.replacement is None:
        return None
    first = products[0]
    role = "+".join(op.role for op in products)
    rows = [op.output.columns for op in products]
    name = role if first.layer is None else f"layers.{first.layer}.{role}"
    shape = (first.output.shape[0], sum(rows))
    sizes: dict[str, Scalar] = {"columns": sum(rows), "inner": first.params["inner"], "a_rows": rows[0]}
    if len(rows) > 1:
        sizes["b_rows"] = rows[1]
    joined = Op(
        meaning="projections",
        role=role,
        layer=first.layer,
        kernel=fusion.replacement,
        inputs=norm.inputs,
        output=first.output if len(products) == 1 else Value(name, shape),
        weights=(*norm.weights, *(weight for op in products for weight in op.weights)),
        params={**sizes, "eps": norm.params["eps"], "offset": norm.params["offset"]},
        origin="substituted",
        note=f"fused: {norm.role}{', ' + ', '.join(op.role for op in products) if len(products) > 1 else ''}: "
        f"{fusion.reason}",
    )
    return joined if runs(joined) else None


def _read_from(ops: Sequence[Op], products: Sequence[Op], joined: Op, kept: Sequence[str]) -> list[Op] | None:
    """The ops, reading columns of the joined value in place of the products; None where one can't."""
    if len(products) == 1:
        return list(ops)
    firsts: dict[str, int] = {}
    column = 0
    for product in products:
        firsts[product.output.name] = column
        column += product.output.columns
    if any(name in kept for name in firsts):
        return None
    changed = [_shifted(op, firsts, joined.output) for op in ops]
    return None if None in changed else [op for op in changed if op is not None]


def _shifted(op: Op, firsts: Mapping[str, int], joined: Value) -> Op | None:
    """The op with columns of `joined` for each input among `firsts`; itself if it has none, None if it can't."""
    params = dict(op.params)
    inputs = list(op.inputs)
    for index, value in enumerate(op.inputs):
        first = firsts.get(value.name)
        if first is None:
            continue
        inputs[index] = joined
        name = _FIRST.get((op.meaning, index))
        if name is not None:
            params[name] = int(params.get(name, 0)) + first
        elif (op.meaning, index) not in _FROM_THE_FIRST or first:
            return None
    if inputs == list(op.inputs):
        return op
    shifted = dataclasses.replace(op, inputs=tuple(inputs), params=params)
    return shifted if runs(shifted) else None


# The param that says from which column on an op reads an input; inputs that are read from their first column on,
# however wide they are.
_FIRST = {("store", 0): "k_first", ("store", 1): "v_first", ("gated_matmul", 1): "up_first"}
_FROM_THE_FIRST = {("cached_attention", 0), ("gated_matmul", 0)}

KINDS: Mapping[str, Callable[[Sequence[Op], Sequence[str], Fusion], tuple[Op, ...]]] = {
    "rotated store": _rotated("store"),
    "rotated attention": _rotated("cached_attention"),
    "gated product": _gated,
    "normed products": _normed,
}
