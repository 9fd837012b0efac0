// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight f32 [N, K]; output f32 [R, N]. Products and sums in f32.
//!include step.wgsl
//!include broadcast_matmul.wgsl
//!include broadcast_gemv.wgsl
//!include dense_columns.wgsl
