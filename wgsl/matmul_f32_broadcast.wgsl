// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight f32 [N, K]; output f32 [R, N]. Products and sums in f32.
//!include step.wgsl
//!include broadcast_tile.wgsl
//!include broadcast_matmul.wgsl

@group(0) @binding(3) var<storage, read> weight: array<vec4<f32>>;

// Where the step begins in each of the four rows, in words of four values.
alias Columns = vec4<u32>;

fn columns_at(first: u32, start: u32) -> Columns {
    let n = vec4<u32>(weight_row(first), weight_row(first + 1u), weight_row(first + 2u), weight_row(first + 3u));
    return (n * params.inner + start) / 4u;
}

fn four(at: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(weight[at.x], weight[at.y], weight[at.z], weight[at.w]);
}

fn weights_of(columns: Columns, half: u32) -> Sixteen {
    let at = columns + half * 4u;
    return Sixteen(four(at), four(at + 1u), four(at + 2u), four(at + 3u));
}
