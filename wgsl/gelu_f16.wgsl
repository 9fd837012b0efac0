// gelu: what gelu.wgsl computes, in f32 too, for gate, up and output in f16.
//!include activation_f16.wgsl
//!include gated_values.wgsl
