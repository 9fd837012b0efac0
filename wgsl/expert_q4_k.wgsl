// Shared by the expert matmuls with weights of Q4_K.
//!include step.wgsl
//!include expert_rows.wgsl
//!include q4_k_block.wgsl
//!include expert_tile.wgsl
//!include expert_gemv.wgsl

@group(0) @binding(4) var<storage, read> weight: array<vec4<u32>>;

// Half a sub-block, which never passes K.
fn sixteen(line: u32, k: u32) -> mat4x4<f32> {
    let block = (line * ((params.inner + 255u) / 256u) + k / 256u) * (Q4_K_WORDS / 4u);
    let j = k / 32u % 8u;
    let shift = j % 2u * 4u;
    let scale = q4_k_scale(weight[block], j);
    let words = weight[block + 1u + j / 2u * 2u + k / 16u % 2u];
    return mat4x4<f32>(
        q4_k_four(words.x, shift) * scale.x - scale.y,
        q4_k_four(words.y, shift) * scale.x - scale.y,
        q4_k_four(words.z, shift) * scale.x - scale.y,
        q4_k_four(words.w, shift) * scale.x - scale.y,
    );
}
