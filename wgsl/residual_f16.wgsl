// residual: what residual.wgsl computes, in f32 too, for a, b and output in f16.
//!include activation_f16.wgsl
//!include sum_of_two.wgsl
