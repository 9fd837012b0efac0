// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k]
// input f16 [R, K]; weight f16 [N, K], two values a word; output f16 [R, N]. Products and sums in f32.
//!include activation_f16.wgsl
//!include f16_tile.wgsl
