// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight Q6_K [N, K], staying packed; output f32 [R, N]. Dequantised, multiplied and summed in f32.
//!include step.wgsl
//!include broadcast_matmul.wgsl
//!include broadcast_gemv.wgsl
//!include q6_k_columns.wgsl
