// residual: output = a + b, elementwise. All f32 [rows, columns].
//!include activation_f32.wgsl
//!include sum_of_two.wgsl
