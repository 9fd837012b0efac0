"""The WebGPU executor: steps of any size, capture, both ways of encoding, limits, errors, closing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import SOFTWARE, Case, packed_step, software_gpu, tensor

from doppler_core.device import wgpu_executor
from doppler_core.device.adapters import choose_adapter
from doppler_core.device.limits import Ability, check_plan
from doppler_core.device.replay import encode_with_objects, native_encoder
from doppler_core.device.wgpu_executor import WgpuExecutor, bind_wgpu, open_wgpu
from doppler_core.errors import DeviceLostError, InputError, LimitError, PlanError, ShaderError
from doppler_core.plan.op import Kernel, Op, Plan, Value, Weight
from doppler_core.weights.tensor import Tensor

VOCABULARY, WIDTH = 50, 32


def kernel(file: str) -> Kernel:
    return Kernel(file, "main", "")


def small_plan() -> tuple[Plan, dict[str, Tensor]]:
    """gather, then rmsnorm, matmul, residual, pool and l2norm: a model in small."""
    rng = np.random.default_rng(0)
    shapes = {"table": (VOCABULARY, WIDTH), "norm": (WIDTH,), "linear": (WIDTH, WIDTH)}
    tensors = {name: tensor(name, rng.standard_normal(shape, np.float32)) for name, shape in shapes.items()}
    weights = {name: Weight(name, shape, "f32", "f32") for name, shape in shapes.items()}
    x, normed, y, z = (Value(name, ("T", WIDTH)) for name in ("x", "normed", "y", "z"))
    pooled, unit = Value("pooled", ("S", WIDTH)), Value("unit", ("S", WIDTH))
    columns = {"columns": WIDTH}
    norm = {"columns": WIDTH, "eps": 1e-6, "offset": 0}
    ops = (
        Op("gather", "embed", None, kernel("gather.wgsl"), (), x, (weights["table"],), params={"scale": 1.0, **columns}),
        Op("rmsnorm", "norm", 0, kernel("rmsnorm.wgsl"), (x,), normed, (weights["norm"],), params=norm),
        Op("matmul", "linear", 0, kernel("matmul_f32.wgsl"), (normed,), y, (weights["linear"],), params={"inner": WIDTH, **columns}),
        Op("residual", "add", 0, kernel("residual.wgsl"), (x, y), z, params=columns),
        Op("pool", "pool", None, kernel("pool_mean.wgsl"), (z,), pooled, params=columns),
        Op("l2norm", "unit", None, kernel("l2norm.wgsl"), (pooled,), unit, params=columns),
    )  # fmt: skip
    return Plan("small", {"encode": ops}, {"encode": (unit,)}), tensors


@pytest.fixture(scope="module")
def executor() -> Iterator[WgpuExecutor]:
    plan, tensors = small_plan()
    opened = open_wgpu(plan, tensors, choose_adapter(SOFTWARE), max_rows=200, max_slots=10)
    yield opened
    opened.close()


def test_a_sequence_comes_out_the_same_alone_and_among_others(executor: WgpuExecutor) -> None:
    together = packed_step([7, 30, 1], dimensions=WIDTH)
    together.rows[:, 0] = np.random.default_rng(1).integers(0, VOCABULARY, 38)
    found = executor.run("encode", together.rows, together.slots)
    for slot, (first, count) in enumerate(together.slots[:, :2]):
        alone = packed_step([count], dimensions=WIDTH)
        alone.rows[:, 0] = together.rows[first : first + count, 0]
        # The order of all sums is the same, so that not even rounding differs.
        np.testing.assert_array_equal(executor.run("encode", alone.rows, alone.slots)[0], found[slot])


def test_steps_of_falling_and_rising_size_leave_nothing_behind(executor: WgpuExecutor) -> None:
    small, large = packed_step([3], dimensions=WIDTH), packed_step([40, 2], dimensions=8)
    first = executor.run("encode", small.rows, small.slots)
    executor.run("encode", large.rows, large.slots)
    np.testing.assert_array_equal(executor.run("encode", small.rows, small.slots), first)


def test_captured_values_are_those_of_the_moment_their_op_had_run(executor: WgpuExecutor) -> None:
    _, tensors = small_plan()
    step = packed_step([5, 9], dimensions=WIDTH)
    step.rows[:, 0] = np.arange(14) * 3
    found = executor.capture("encode", step.rows, step.slots, ["x", "normed", "unit"])
    x = tensors["table"].data.view(np.float32).reshape(VOCABULARY, WIDTH)[step.rows[:, 0]]
    np.testing.assert_array_equal(found["x"], x)
    assert found["normed"].shape == (14, WIDTH)
    np.testing.assert_array_equal(found["unit"], executor.run("encode", step.rows, step.slots))
    with pytest.raises(InputError, match=r"no values \['nothing'\]"):
        executor.capture("encode", step.rows, step.slots, ["nothing"])


def test_native_handles_and_python_objects_encode_the_same(
    executor: WgpuExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = packed_step([11, 4], dimensions=WIDTH)
    assert native_encoder() is not None, (
        "this version of wgpu has no handles: the pin in pyproject.toml is wrong"
    )
    assert executor._encode is not encode_with_objects
    native = executor.run("encode", step.rows, step.slots)
    monkeypatch.setattr(executor, "_encode", encode_with_objects)
    np.testing.assert_array_equal(executor.run("encode", step.rows, step.slots), native)


def test_an_empty_step_is_refused(executor: WgpuExecutor) -> None:
    nothing = np.zeros((0, 4), np.uint32)
    with pytest.raises(InputError, match="0 rows in 0 sequences"):
        executor.run("encode", nothing, nothing)


@pytest.mark.parametrize(
    ("lengths", "change", "message"),
    [
        ([201], None, "201 rows.*1 to 200 rows"),
        ([1] * 11, None, "11 sequences.*1 to 10 sequences"),
        ([4], ("rows", (1, 0), VOCABULARY), "token id 50: expected less than 50"),
        ([4], ("rows", (1, 2), 1), "slot"),
        ([4], ("slots", (0, 1), 5), "slot"),
    ],
)  # fmt: skip
def test_a_step_that_does_not_fit_is_refused(
    executor: WgpuExecutor, lengths: list[int], change: tuple[str, tuple[int, int], int] | None, message: str
) -> None:
    step = packed_step(lengths, dimensions=WIDTH)
    if change is not None:
        table, place, value = change
        getattr(step, table)[place] = value
    with pytest.raises(InputError, match=message):
        executor.run("encode", step.rows, step.slots)


def test_it_says_what_it_holds(executor: WgpuExecutor) -> None:
    weights = (VOCABULARY * WIDTH + WIDTH + WIDTH * WIDTH) * 4
    arena = 3 * 200 * WIDTH * 4
    assert weights + arena < executor.memory_bytes < weights + arena + 10_000
    assert "llvmpipe" in executor.device


def test_a_closed_executor_refuses_to_run() -> None:
    plan, tensors = small_plan()
    opened = open_wgpu(plan, tensors, choose_adapter(SOFTWARE), max_rows=4, max_slots=1)
    opened.close()
    opened.close()
    step = packed_step([2])
    with pytest.raises(DeviceLostError, match="open it again"):
        opened.run("encode", step.rows, step.slots)


def test_a_device_that_goes_away_is_reported_as_lost() -> None:
    plan, tensors = small_plan()
    opened = open_wgpu(plan, tensors, choose_adapter(SOFTWARE), max_rows=4, max_slots=1)
    opened._gpu.device.destroy()
    step = packed_step([2], dimensions=WIDTH)
    with pytest.raises(DeviceLostError, match=r"(?s)running encode of small.*device is lost"):
        opened.run("encode", step.rows, step.slots)


def test_a_kernel_that_does_not_compile_is_named() -> None:
    plan, tensors = small_plan()
    with pytest.raises(ShaderError, match=r"compiling gather.wgsl#main for llvmpipe"):
        bind_wgpu(plan, tensors, fresh_gpu(), max_rows=4, max_slots=1, text=lambda file: "fn main( {")


def fresh_gpu() -> object:
    """The shared device with no kernels compiled."""
    return replace(software_gpu(), _modules={}, _pipelines={})


def test_it_works_within_the_limits_that_webgpu_gives_by_default() -> None:
    plan, tensors = small_plan()
    step = packed_step([20, 3], dimensions=WIDTH)
    found = []
    for default_limits in (True, False):
        opened = open_wgpu(
            plan, tensors, choose_adapter(SOFTWARE), max_rows=30, max_slots=2, default_limits=default_limits
        )
        found.append(opened.run("encode", step.rows, step.slots))
        opened.close()
    np.testing.assert_array_equal(*found)


def test_progress_ends_with_all_bytes() -> None:
    plan, tensors = small_plan()
    seen: list[tuple[int, int]] = []
    bind_wgpu(plan, tensors, software_gpu(), max_rows=4, max_slots=1, progress=lambda *now: seen.append(now))
    assert len(seen) == 3
    assert seen[-1][0] == seen[-1][1] == sum(one.data.nbytes for one in tensors.values())


def test_a_tensor_of_another_shape_than_the_plan_says_is_refused() -> None:
    plan, tensors = small_plan()
    tensors["norm"] = tensor("norm", np.ones(WIDTH + 1, np.float32))
    with pytest.raises(PlanError, match=r"'norm'.*\(32,\).*\(33,\)"):
        bind_wgpu(plan, tensors, software_gpu(), max_rows=4, max_slots=1)


ABLE = Ability("a GPU", 128 << 20, 8, 8, None, frozenset(["subgroup", "shader-int64"]))


def test_limits_are_checked_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = small_plan()
    monkeypatch.setattr(wgpu_executor, "bind", lambda *_: pytest.fail("loaded first"))
    small = replace(software_gpu(), max_binding=1 << 20)
    with pytest.raises(
        LimitError, match=r"embed: gather.wgsl#main on llvmpipe.*'x' needs 12,800,000 bytes.*1,048,576"
    ):
        bind_wgpu(plan, {}, small, max_rows=100_000, max_slots=1)


@pytest.mark.parametrize(
    ("ability", "message"),
    [
        (replace(ABLE, subgroup_size=32), "needs subgroups of 8, the GPU adapter's have 32"),
        (replace(ABLE, features=frozenset(["shader-int64"])), "needs the feature subgroup"),
        (replace(ABLE, loop_cap=2), r"\d+ loop turns.*silently stops after 2"),
        (replace(ABLE, max_binding=64), "one row exceeds the largest binding|needs .* bytes in one binding"),
    ],
)
def test_a_kernel_the_adapter_can_not_run_is_refused(ability: Ability, message: str) -> None:
    plan = one_matmul(32, 32, "matmul_f32_broadcast.wgsl")
    with pytest.raises(LimitError, match=message):
        check_plan(plan, ability, 10, 1)


def test_a_kernel_that_does_not_take_the_sizes_is_refused() -> None:
    with pytest.raises(PlanError, match="needs inner a multiple of 32"):
        check_plan(one_matmul(32, 40, "matmul_f32_broadcast.wgsl"), ABLE, 10, 1)


def one_matmul(columns: int, inner: int, file: str) -> Plan:
    x, y = Value("x", ("T", inner)), Value("y", ("T", columns))
    feed = Op("gather", "feed", None, kernel("gather.wgsl"), (), x, (Weight("x", (9, inner), "f32", "f32"),),
              params={"scale": 1.0, "columns": inner})  # fmt: skip
    op = Op("matmul", "linear", 0, kernel(file), (x,), y, (Weight("w", (columns, inner), "f32", "f32"),),
            params={"columns": columns, "inner": inner})  # fmt: skip
    return Plan("one matmul", {"encode": (feed, op)}, {"encode": (y,)})


def test_the_longest_product_under_the_loop_cap_is_whole() -> None:
    # 9 turns for each 16 along K: 65,529 turns of the 65,535 that Mesa 22 allows. A loop cut short would lose terms.
    inner = 16 * (65_535 // 9)
    one = Case(
        "matmul",
        "matmul_f32.wgsl#main",
        {"columns": 1, "inner": inner},
        packed_step([1]),
        inputs=[np.ones((1, inner), np.float32)],
        weights=[np.ones((1, inner), np.float32)],
        weight_types=[("f32", "f32")],
        columns=1,
    )
    assert one.run()[0, 0] == inner
    capped = replace(ABLE, loop_cap=65_535)
    check_plan(one_matmul(1, inner, "matmul_f32.wgsl"), capped, 1, 1)
    with pytest.raises(LimitError, match="silently stops after 65,535"):
        check_plan(one_matmul(1, inner + 16, "matmul_f32.wgsl"), capped, 1, 1)
