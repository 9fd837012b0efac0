// cached_attention: tiles of rows over the keys and values of a state, f16 (or f32), for prompts, with heads of up to 256 values.
// A workgroup makes 16 rows of one head over 8 positions at a time; head_dim at most 256.
//!include activation_f32.wgsl
//!include attention_head256_tile.wgsl
