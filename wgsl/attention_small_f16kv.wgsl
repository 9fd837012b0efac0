// cached_attention: tiles of rows over the keys and values of a state, f16 (or f32), for few rows a sequence.
// A workgroup makes 8 rows of one head over 8 positions at a time; head_dim at most 256.
//!include activation_f32.wgsl
//!include attention_small_tile.wgsl
