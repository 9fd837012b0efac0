// expert_sum: what expert_sum.wgsl computes, in f32 too, for input and output in f16; what a route weighs stays f32.
//!include activation_f16.wgsl
//!include sum_of_routes.wgsl
