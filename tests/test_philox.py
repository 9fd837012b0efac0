"""Random words: the paper's known answers, and WGSL that makes the same words and nearly the same noise."""

import numpy as np
import pytest
import wgpu
from gpu_ops import software_gpu

from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.philox import gumbel, philox, token_words

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
# From the file of known answers that the authors publish with their Random123 library.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]

ENTRY = """
@group(0) @binding(0) var<storage, read> input: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4<u32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) thread: vec3<u32>) {
    let at = thread.x * 2u;
    let words = philox(input[at], input[at + 1u].xy);
    output[at] = words;
    output[at + 1u] = bitcast<vec4<u32>>(vec4<f32>(noise(words.x), noise(words.y), noise(words.z), noise(words.w)));
}
"""


def on_the_device(counters: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Words and noise of each counter under its key, by wgsl/philox.wgsl; a multiple of 64 of them."""
    device = software_gpu().device
    lines = np.concatenate([counters, np.pad(keys, ((0, 0), (0, 2)))], 1).astype(np.uint32)
    pipeline = device.create_compute_pipeline(
        layout="auto",
        compute={
            "module": device.create_shader_module(code=kernel_text("philox.wgsl") + ENTRY),
            "entry_point": "main",
        },
    )
    given = device.create_buffer_with_data(data=lines, usage=wgpu.BufferUsage.STORAGE)
    made = device.create_buffer(size=lines.nbytes, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
    entries = [{"binding": n, "resource": {"buffer": buffer}} for n, buffer in enumerate((given, made))]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(len(lines) // 64)
    work.end()
    device.queue.submit([encoder.finish()])
    found = np.frombuffer(device.queue.read_buffer(made), np.uint32).reshape(-1, 8)
    return found[:, :4], found[:, 4:].view(np.float32)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_papers_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    assert philox(np.array([counter], np.uint32), key).tolist() == [list(expected)]


def test_the_device_makes_the_same_words() -> None:
    draw = np.random.default_rng(0)
    counters = draw.integers(0, 1 << 32, (256, 4), dtype=np.uint32)
    keys = draw.integers(0, 1 << 32, (256, 2), dtype=np.uint32)
    for line, (counter, key, _) in enumerate(KNOWN):
        counters[line], keys[line] = counter, key
    words, noise = on_the_device(counters, keys)
    expected = [
        philox(counter[None], (int(key[0]), int(key[1])))[0]
        for counter, key in zip(counters, keys, strict=True)
    ]
    np.testing.assert_array_equal(words, expected)
    # Two logarithms of the driver, each within 3e-6 of its value or of 1.
    np.testing.assert_allclose(noise, gumbel(words), rtol=1e-5, atol=1e-5)


def test_a_token_has_its_word_whichever_others_are_asked_for() -> None:
    every = token_words(7, 3, np.arange(1000))
    some = np.array([999, 4, 5, 400])
    np.testing.assert_array_equal(token_words(7, 3, some), every[some])
    np.testing.assert_array_equal(token_words(7, 3, some[:1]), every[some[:1]])
    assert len(np.unique(every)) == 1000


def test_seed_and_position_each_change_the_words() -> None:
    ids = np.arange(64)
    words = [token_words(seed, position, ids) for seed in (0, 1, 1 << 32, 1 << 63) for position in (0, 1)]
    assert len(np.unique(np.concatenate(words))) == 8 * 64


def test_noise_is_finite_at_both_ends_of_the_words_and_rises_between() -> None:
    noise = gumbel(np.array([0, 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32))
    assert np.isfinite(noise).all()
    assert (np.diff(noise) > 0).all()
    assert noise[0] > -3.2
    assert noise[-1] < 22.9
