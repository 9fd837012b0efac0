// expert_matmul: output[r, i, n] = sum over k of input[r, k] * weight[e, n, k], e the expert of row r's route i.
// input f32 [R, K], or with own_inputs [R, chosen * K], a run for each route; routes u32 [R, chosen, 2], an expert and what
// it weighs; weight f16 or f32 [E, columns, K], K a multiple of 4; output f32 [R, chosen * columns], in two parts the first
// halves of all routes before their second ones. Products and sums in f32.
//!include activation_f32.wgsl
//!include expert_dense.wgsl
