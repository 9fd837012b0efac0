"""Kernel profiles: which one is chosen, which kernels it puts in place of others, and where it leaves them."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from gpu_ops import Case, packed_step, software_gpu

from doppler_core.errors import LimitError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Kernel, Op, Plan, Value, Weight
from doppler_core.plan.profile import AdapterFacts, Substitution, apply_profile, choose_profile, profiles
from doppler_core.weights.tensor import StorageType

SPLIT8 = Kernel("gather_split8_f16_vec4_f32_out.wgsl", "gather_vec4_f32_out", "")
TILED = Kernel("matmul_f16w_f32a.wgsl", "main", "")
PACKED: tuple[StorageType, ...] = ("q4_k", "q8_0", "q5_0", "q6_k")
RULES = [(name, rule) for name, profile in profiles().items() for rule in profile.substitutions]


def gather(kernel: Kernel, stored: StorageType = "f16", columns: int = 64) -> Plan:
    weight = Weight("table", (100, columns), stored, "f16")
    params = {"scale": 1.0, "columns": columns}
    op = Op("gather", "embed", None, kernel, (), Value("x", ("T", columns)), (weight,), params=params)
    return Plan("m", {"p": (op,)}, {"p": (op.output,)})


def matmul(kernel: Kernel, stored: StorageType, inner: int = 64) -> Plan:
    weight = Weight("w", (100, inner), stored, "f16")
    params = {"columns": 100, "inner": inner}
    x, y = Value("x", ("T", inner)), Value("y", ("T", 100))
    return Plan(
        "m", {"p": (Op("matmul", "q_proj", None, kernel, (x,), y, (weight,), params=params),)}, {"p": (y,)}
    )


def only(plan: Plan) -> Op:
    (op,) = plan.phases["p"]
    return op


@pytest.mark.parametrize(("name", "rule"), RULES, ids=lambda part: getattr(part, "kernel", part))
def test_a_rule_puts_a_kernel_of_the_same_meaning_in_place_of_another(name: str, rule: Substitution) -> None:
    replaced = signature(Kernel(rule.kernel, rule.entry, ""))
    replacement = signature(rule.replacement)
    assert replaced.meaning == replacement.meaning
    assert set(rule.replacement.constants) <= set(replacement.overrides)
    assert rule.reason


@pytest.mark.parametrize("facts", [AdapterFacts("DiscreteGPU", 32, 16), AdapterFacts("IntegratedGPU", 64)])
def test_a_file_whose_own_types_stand_stays_packed_on_a_gpu(facts: AdapterFacts) -> None:
    assert choose_profile(None, facts).name == "gpu"
    assert choose_profile(None, dataclasses.replace(facts, weights="as stored")).name == "packed"
    assert choose_profile("gpu", dataclasses.replace(facts, weights="as stored")).name == "gpu"


@pytest.mark.parametrize("stored", PACKED)
@pytest.mark.parametrize(
    "plan_of",
    [
        lambda stored: matmul(TILED, stored),
        lambda stored: matmul(Kernel("matmul_gemv_subgroup.wgsl", "main_vec4", ""), stored),
        lambda stored: matmul(Kernel("matmul_gemv_subgroup.wgsl", "main_multicol", ""), stored),
        lambda stored: gather(Kernel("gather.wgsl", "main", ""), stored),
        lambda stored: gather(SPLIT8, stored),
    ],
)
def test_every_reader_of_a_packed_tensor_reads_it_packed(
    stored: StorageType, plan_of: Callable[[StorageType], Plan]
) -> None:
    """A tensor is loaded once, in one type: so all kernels that may share it change, or none."""
    changed = only(apply_profile(plan_of(stored), profiles()["packed"]))
    assert changed.weights[0].dtype == stored
    assert changed.origin == "substituted"


def test_dense_weights_and_seeds_as_written_keep_their_kernels() -> None:
    assert only(apply_profile(matmul(TILED, "f16"), profiles()["packed"])).kernel == TILED
    assert only(apply_profile(matmul(TILED, "q4_k"), profiles()["gpu"])).kernel == TILED


@pytest.mark.parametrize("name", ["gpu", "packed"])
def test_the_gather_of_eight_sections_is_kept_where_ten_storage_buffers_are_allowed(name: str) -> None:
    plan = gather(SPLIT8)
    assert only(apply_profile(plan, profiles()[name], 10)).kernel == SPLIT8
    changed = only(apply_profile(plan, profiles()[name], 8))
    assert changed.kernel.file == "gather.wgsl"
    assert "ten storage buffers" in changed.note


def test_a_kernel_with_more_storage_buffers_than_the_adapter_grants_is_refused_before_anything_is_loaded() -> (
    None
):
    one = Case(
        "gather",
        str(SPLIT8),
        {"scale": 1.0, "columns": 32},
        packed_step([3]),
        weights=[np.ones((3, 32), np.float32)],
        weight_types=[("f16", "f16")],
        columns=32,
    )
    with pytest.raises(LimitError, match=r"binds 10 storage buffers, the GPU adapter grants 8"):
        one.run(dataclasses.replace(software_gpu(), storage_buffers=8))


def test_a_device_with_default_limits_grants_eight_storage_buffers() -> None:
    assert software_gpu(default_limits=True).ability.storage_buffers == 8
    assert software_gpu().ability.storage_buffers >= 10
