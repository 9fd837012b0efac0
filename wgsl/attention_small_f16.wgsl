// cached_attention: what attention_small_f16kv.wgsl computes, for queries and output in f16. Scores and sums in f32: in f16 a
// softmax over a long context adds weights below half of a sum's last place, which then count for nothing.
//!include activation_f16.wgsl
//!include attention_small_tile.wgsl
