// expert_matmul: output[r, i, n] = sum over k of input[r, k] * weight[e, n, k], e the expert of row r's route i.
// input f32 [R, K], or with own_inputs [R, chosen * K], a run for each route; routes u32 [R, chosen, 2], an expert and what
// it weighs; weight f16 or f32 [E, columns, K], K a multiple of 4; output f32 [R, chosen * columns], in two parts the first
// halves of all routes before their second ones. Products and sums in f32.
//!include step.wgsl
//!include expert_rows.wgsl
//!include dense_four.wgsl
//!include expert_tile.wgsl
//!include expert_gemv.wgsl

@group(0) @binding(4) var<storage, read> weight: array<vec2<u32>>;

fn four(line: u32, k: u32) -> vec4<f32> {
    if (k >= params.inner) {
        return vec4<f32>();
    }
    return weight_four((line * params.inner + k) / 4u);
}

fn sixteen(line: u32, k: u32) -> mat4x4<f32> {
    return mat4x4<f32>(four(line, k), four(line, k + 4u), four(line, k + 8u), four(line, k + 12u));
}
