// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight f16 [N, K], two values a word; output f32 [R, N]. Products and sums in f32.
//!include step.wgsl
//!include broadcast_tile.wgsl
//!include broadcast_matmul.wgsl

@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;

// Where the step begins in each of the four rows, in words of eight values.
alias Columns = vec4<u32>;

fn columns_at(first: u32, start: u32) -> Columns {
    let n = vec4<u32>(weight_row(first), weight_row(first + 1u), weight_row(first + 2u), weight_row(first + 3u));
    return (n * params.inner + start) / 8u;
}

fn four(a: vec2<u32>, b: vec2<u32>, c: vec2<u32>, d: vec2<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        vec4<f32>(unpack2x16float(a.x), unpack2x16float(a.y)),
        vec4<f32>(unpack2x16float(b.x), unpack2x16float(b.y)),
        vec4<f32>(unpack2x16float(c.x), unpack2x16float(c.y)),
        vec4<f32>(unpack2x16float(d.x), unpack2x16float(d.y)),
    );
}

fn weights_of(columns: Columns, half: u32) -> Sixteen {
    let at = columns + half * 2u;
    let a = weight[at.x];
    let b = weight[at.y];
    let c = weight[at.z];
    let d = weight[at.w];
    let e = weight[at.x + 1u];
    let f = weight[at.y + 1u];
    let g = weight[at.z + 1u];
    let h = weight[at.w + 1u];
    return Sixteen(
        four(a.xy, b.xy, c.xy, d.xy), four(a.zw, b.zw, c.zw, d.zw),
        four(e.xy, f.xy, g.xy, h.xy), four(e.zw, f.zw, g.zw, h.zw),
    );
}
