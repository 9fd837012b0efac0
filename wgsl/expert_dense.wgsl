// Shared by the expert matmuls with weights of f16 or f32.
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
