// rope: what rope.wgsl computes, in f32 too, for input and output in f16.
//!include activation_f16.wgsl
//!include turned_heads.wgsl
