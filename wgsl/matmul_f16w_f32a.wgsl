// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k]
// input f32 [R, K]; weight f16 [N, K], two values a word; output f32 [R, N]. Products and sums in f32.
//!include activation_f32.wgsl
//!include f16_tile.wgsl
