// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], the weight staying packed on the device.
// input f32 [R, K]; weight Q6_K [N, K]; output f32 [R, N]. Dequantised, multiplied and summed in f32.
//!include activation_f32.wgsl
//!include step.wgsl
//!include q6_k_chunk.wgsl
//!include packed_tile.wgsl
