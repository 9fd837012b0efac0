// Shared by the attention kernels that read a state by eights, with loads of 64 bits; head_dim a multiple of 8.

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

fn four_f16(long: u64) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(u32(long)), unpack2x16float(u32(long >> 32u)));
}

fn two_f32(long: u64) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2<u32>(u32(long), u32(long >> 32u)));
}

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
    let near = state[at / 4u];
    let far = state[at / 4u + 1u];
    return Values(
        vec4<f32>(two_f32(near.x), two_f32(near.y)), vec4<f32>(two_f32(far.x), two_f32(far.y))
    );
}

fn value_column() -> u32 {
    return params.kv_heads * params.head_dim;
}
