// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight Q4_K [N, K], staying packed; output f32 [R, N]. Dequantised, multiplied and summed in f32.
// A step of 32 is one sub-block.
//!include step.wgsl
//!include q4_k_block.wgsl
//!include broadcast_tile.wgsl
//!include broadcast_matmul.wgsl

@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;

// Of each of the four rows: where the sub-block's nibbles lie, and value = scale * nibble - offset.
struct Columns {
    at: vec4<u32>,
    shift: u32,
    scale: vec4<f32>,
    offset: vec4<f32>,
}

fn columns_at(first: u32, start: u32) -> Columns {
    let n = vec4<u32>(weight_row(first), weight_row(first + 1u), weight_row(first + 2u), weight_row(first + 3u));
    let block = (n * ((params.inner + 255u) / 256u) + start / 256u) * (Q4_K_WORDS / 4u);
    let j = start / 32u % 8u;
    let a = q4_k_scale(weight[block.x], j);
    let b = q4_k_scale(weight[block.y], j);
    let c = q4_k_scale(weight[block.z], j);
    let d = q4_k_scale(weight[block.w], j);
    return Columns(
        block + 1u + j / 2u * 2u,
        j % 2u * 4u,
        vec4<f32>(a.x, b.x, c.x, d.x),
        vec4<f32>(a.y, b.y, c.y, d.y),
    );
}

fn four(columns: Columns, a: u32, b: u32, c: u32, d: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        q4_k_four(a, columns.shift) * columns.scale.x - columns.offset.x,
        q4_k_four(b, columns.shift) * columns.scale.y - columns.offset.y,
        q4_k_four(c, columns.shift) * columns.scale.z - columns.offset.z,
        q4_k_four(d, columns.shift) * columns.scale.w - columns.offset.w,
    );
}

fn weights_of(columns: Columns, half: u32) -> Sixteen {
    let at = columns.at + half;
    let a = weight[at.x];
    let b = weight[at.y];
    let c = weight[at.z];
    let d = weight[at.w];
    return Sixteen(
        four(columns, a.x, b.x, c.x, d.x), four(columns, a.y, b.y, c.y, d.y),
        four(columns, a.z, b.z, c.z, d.z), four(columns, a.w, b.w, c.w, d.w),
    );
}
