// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], the weight staying packed on the device.
// input f32 [R, K]; weight Q4_K [N, K]; output f32 [R, N]. Dequantised, multiplied and summed in f32.
//!include step.wgsl
//!include q4_k_block.wgsl
//!include matmul_tile.wgsl

fn weight4(n: u32, k: u32) -> vec4<f32> {
    let block = (n * ((params.inner + 255u) / 256u) + k / 256u) * Q4_K_WORDS;
    let head = vec4<u32>(weight[block], weight[block + 1u], weight[block + 2u], weight[block + 3u]);
    let j = k / 32u % 8u;
    let scale = q4_k_scale(head, j);
    let word = weight[block + 4u + j / 2u * 8u + k % 32u / 4u];
    return q4_k_four(word, j % 2u * 4u) * scale.x - scale.y;
}
