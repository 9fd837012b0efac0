// store: what store.wgsl computes, in f32 too, for k and v in f16; the state's type is a question of its own.
//!include activation_f16.wgsl
//!include stored_heads.wgsl
