// Shared by the broadcast matmuls (broadcast_columns.wgsl) with Q5_0 weights [N, K]: a step is a block, of 32 values in
// 22 bytes (11 half-words): d as f16; a word of fifth bits, bit j value j's; 16 bytes of nibbles, the low ones values
// 0 to 15, the high ones 16 to 31; value = d * (q - 16).
//!include long_words.wgsl

alias Run = array<vec2<u32>, 4>;

fn run_at(row: u32, start: u32) -> Run {
    return eight_words((row * (params.inner / 32u) + start / 32u) * 11u);
}

// Four nibbles, and as the bits above them the lowest four of `bits`: a product puts them 8 apart.
fn five_bits(nibbles: u32, bits: u32) -> vec4<f32> {
    let fives = vec4<u32>((nibbles & 0x0f0f0f0fu) | (((bits & 15u) * 0x02040810u) & 0x10101010u));
    return vec4<f32>(vec4<i32>((fives >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(31u)));
}

fn quants_of(run: Run, half: u32) -> Four {
    let bits = ((run[0].x >> 16u) | (run[0].y << 16u)) >> (half * 16u);
    let shift = half * 4u;
    return Four(
        five_bits(((run[0].y >> 16u) | (run[1].x << 16u)) >> shift, bits),
        five_bits(((run[1].x >> 16u) | (run[1].y << 16u)) >> shift, bits >> 4u),
        five_bits(((run[1].y >> 16u) | (run[2].x << 16u)) >> shift, bits >> 8u),
        five_bits(((run[2].x >> 16u) | (run[2].y << 16u)) >> shift, bits >> 12u),
    );
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    let scale = unpack2x16float(run[0].x).x;
    return vec2<f32>(scale, 16.0 * scale);
}
