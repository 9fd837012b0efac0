// expert_sum: output[r, c] = sum over i of the weight of row r's route i * input[r, i * columns + c]
// input f32 [R, chosen * columns]; routes u32 [R, chosen, 2], an expert and the bits of its f32 weight; output f32
// [R, columns]. Sums in f32, in the order of the routes.
//!include activation_f32.wgsl
//!include sum_of_routes.wgsl
