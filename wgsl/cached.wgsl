// Shared by the attention kernels that read a state by fours.
//!include cached_rows.wgsl

@group(0) @binding(5) var<storage, read> state: array<vec2<u32>>;

fn state_four(index: u32) -> vec4<f32> {
    if (STATE_IS_F16) {
        let words = state[index];
        return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
    }
    return vec4<f32>(bitcast<vec2<f32>>(state[index * 2u]), bitcast<vec2<f32>>(state[index * 2u + 1u]));
}

// Where a key begins, in fours; its value lies value_offset() behind. `ring`: position % capacity, or up to a capacity
// above, so that a loop over neighbouring positions takes the remainder once.
fn key_at(place: u32, ring: u32, kv_head: u32) -> u32 {
    let line = place * params.capacity + select(ring, ring - params.capacity, ring >= params.capacity);
    return (line * 2u * params.kv_heads + kv_head) * (params.head_dim / 4u);
}

fn value_offset() -> u32 {
    return params.kv_heads * (params.head_dim / 4u);
}
