// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight Q8_0 [N, K], staying packed; output f32 [R, N]. Dequantised, multiplied and summed in f32.
// A step of 32 is one block.
//!include step.wgsl
//!include f16_word.wgsl
//!include q8_0_block.wgsl
//!include broadcast_tile.wgsl
//!include broadcast_matmul.wgsl

@group(0) @binding(3) var<storage, read> weight: array<u32>;

// Of each of the four rows: where the block's values lie, in half-words, and their scale.
struct Columns {
    at: vec4<u32>,
    scale: vec4<f32>,
}

fn scale_of(block: u32) -> f32 {
    return half_of(weight[block / 2u], block);
}

fn columns_at(first: u32, start: u32) -> Columns {
    let n = vec4<u32>(weight_row(first), weight_row(first + 1u), weight_row(first + 2u), weight_row(first + 3u));
    let block = (n * (params.inner / 32u) + start / 32u) * 17u;
    let scale = vec4<f32>(scale_of(block.x), scale_of(block.y), scale_of(block.z), scale_of(block.w));
    return Columns(block + 1u, scale);
}

// Four words of a row, from half-word `at` on.
fn words(at: u32) -> vec4<u32> {
    let word = at / 2u;
    let near = vec4<u32>(weight[word], weight[word + 1u], weight[word + 2u], weight[word + 3u]);
    let next = vec4<u32>(near.yzw, weight[word + 4u]);
    return select(near, (near >> vec4<u32>(16u)) | (next << vec4<u32>(16u)), (at & 1u) == 1u);
}

fn four(columns: Columns, a: u32, b: u32, c: u32, d: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        vec4<f32>(unpack4xI8(a)) * columns.scale.x,
        vec4<f32>(unpack4xI8(b)) * columns.scale.y,
        vec4<f32>(unpack4xI8(c)) * columns.scale.z,
        vec4<f32>(unpack4xI8(d)) * columns.scale.w,
    );
}

fn weights_of(columns: Columns, half: u32) -> Sixteen {
    let at = columns.at + half * 8u;
    let a = words(at.x);
    let b = words(at.y);
    let c = words(at.z);
    let d = words(at.w);
    return Sixteen(
        four(columns, a.x, b.x, c.x, d.x), four(columns, a.y, b.y, c.y, d.y),
        four(columns, a.z, b.z, c.z, d.z), four(columns, a.w, b.w, c.w, d.w),
    );
}
