// cached_attention: tiles of rows over the keys and values of a state, f16 (or f32), for prompts, with heads of up to 512 values.
// A workgroup makes 8 rows of one head over 4 positions at a time; head_dim at most 512.
//!include activation_f32.wgsl
//!include attention_head512_tile.wgsl
