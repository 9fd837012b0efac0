// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], the weight staying packed on the device.
// input f32 [R, K]; weight Q8_0 [N, K]; output f32 [R, N]. Dequantised, multiplied and summed in f32.
//!include step.wgsl
//!include f16_word.wgsl
//!include q8_0_block.wgsl
//!include matmul_tile.wgsl

fn weight4(n: u32, k: u32) -> vec4<f32> {
    // In half-words: 17 a block, its scale first.
    let block = (n * ((params.inner + 31u) / 32u) + k / 32u) * 17u;
    let scale = half_of(weight[block / 2u], block);
    let half = block + 1u + k % 32u / 2u;
    let four = straddling(weight[half / 2u], weight[half / 2u + 1u], half);
    return vec4<f32>(unpack4xI8(four)) * scale;
}
