// rmsnorm: what rmsnorm.wgsl computes, in f32 too, for input, residual and output in f16.
//!include activation_f16.wgsl
//!include norm_segments.wgsl
