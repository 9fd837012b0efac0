// Shared by the broadcast matmuls (broadcast_columns.wgsl) with Q6_K weights [N, K]. A block of 256 values, 8 steps, in 210
// bytes (105 half-words), value = d * scale_j * (q - 32), j the run of 16 values:
//   half-words 0-63     nibbles: 64 bytes for each 128 values, the low ones the first 64 of them, the high ones the next
//   half-words 64-95    upper two bits: 32 bytes for each 128 values, byte l those of l, l + 32, l + 64, l + 96, lowest first
//   half-words 96-103   sixteen scales, signed bytes
//   half-word 104       d as f16
// A row fills whole blocks.
//!include long_words.wgsl

// Of a step: the nibbles and the upper bits, each with those of other steps beside them, and two scales.
struct Run {
    low: array<vec2<u32>, 5>,
    low_shift: u32,
    high: array<vec2<u32>, 5>,
    high_shift: u32,
    scales: vec2<f32>,
}

fn run_at(row: u32, start: u32) -> Run {
    let block = (row * ((params.inner + 255u) / 256u) + start / 256u) * 105u;
    let part = start / 32u % 4u;
    let second = start / 128u % 2u;
    let scales = two_bytes(block + 96u + second * 4u + part);
    return Run(
        ten_words(block + second * 32u + part % 2u * 16u),
        part / 2u * 4u,
        ten_words(block + 64u + second * 16u),
        part * 2u,
        scales * unpack2x16float(half_word(block + 104u)).x,
    );
}

fn half_word(half: u32) -> u32 {
    return u32(weight[half / 4u] >> (half % 4u * 16u));
}

fn two_bytes(half: u32) -> vec2<f32> {
    let word = bitcast<i32>(half_word(half));
    return vec2<f32>(vec2<i32>(word << 24u, word << 16u) >> vec2<u32>(24u));
}

fn six_bits(low: u32, high: u32) -> vec4<f32> {
    let sixes = vec4<u32>((low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u));
    return vec4<f32>(vec4<i32>((sixes >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(63u)));
}

fn quants_of(run: Run, half: u32) -> Four {
    let a = run.low[half * 2u] >> vec2<u32>(run.low_shift);
    let b = run.low[half * 2u + 1u] >> vec2<u32>(run.low_shift);
    let c = run.high[half * 2u] >> vec2<u32>(run.high_shift);
    let d = run.high[half * 2u + 1u] >> vec2<u32>(run.high_shift);
    return Four(six_bits(a.x, c.x), six_bits(a.y, c.y), six_bits(b.x, d.x), six_bits(b.y, d.y));
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    let scale = run.scales[half];
    return vec2<f32>(scale, 32.0 * scale);
}
