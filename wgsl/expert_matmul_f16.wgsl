// expert_matmul: what expert_matmul.wgsl computes, in f32 too, for input and output in f16.
//!include activation_f16.wgsl
//!include expert_dense.wgsl
