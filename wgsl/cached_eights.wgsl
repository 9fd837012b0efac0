// Shared by the attention kernels that read a state by eights, with loads of 64 bits; head_dim a multiple of 8.
//!include long_values.wgsl

@group(0) @binding(5) var<storage, read> state: array<vec2<u64>>;

// A run of positions of one place. line: the place's first; ring: that of the run's first position among its lines;
// last: offset of the run's last position, less than the capacity; column: the first of the key head.
struct Seen {
    line: u32,
    ring: u32,
    last: u32,
    column: u32,
}

alias Values = array<vec4<f32>, 2>;

// Columns column .. column + 7 of the key at an offset into the run, or of its value with value_column() more. Past the
// last position it is repeated: what comes of it has no weight.
fn eight(seen: Seen, offset: u32, column: u32) -> Values {
    let ring = seen.ring + min(offset, seen.last);
    let line = seen.line + select(ring, ring - params.capacity, ring >= params.capacity);
    let at = line * 2u * params.kv_heads * params.head_dim + seen.column + column;
    if (STATE_IS_F16) {
        let longs = state[at / 8u];
        return Values(four_f16(longs.x), four_f16(longs.y));
    }
    return Values(four_f32(state[at / 4u]), four_f32(state[at / 4u + 1u]));
}

fn value_column() -> u32 {
    return params.kv_heads * params.head_dim;
}
