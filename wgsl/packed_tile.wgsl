// Shared by the plain matmuls with packed weights: weights k .. k + 3 of row n, out of its chunk of 32.
//!include matmul_tile.wgsl

fn weight_at(index: u32) -> u32 {
    return weight[index];
}

fn weight4(n: u32, k: u32) -> vec4<f32> {
    return chunk_four(chunk_at(n, (params.inner + 31u) / 32u, k / 32u), k % 32u / 4u);
}
