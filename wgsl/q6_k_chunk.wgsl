// Shared by the kernels that read Q6_K: 32 neighbouring values of a row, a chunk, ready to be expanded by fours.
// A block of 256 values, 8 chunks, in 210 bytes (105 half-words), value = d * scale_j * (q - 32), j the run of 16 values:
//   half-words 0-63     nibbles: 64 bytes for each 128 values, the low ones the first 64 of them, the high ones the next
//   half-words 64-95    upper two bits: 32 bytes for each 128 values, byte l those of l, l + 32, l + 64, l + 96, lowest first
//   half-words 96-103   sixteen scales, signed bytes
//   half-word 104       d as f16
// A row fills whole blocks.
//!include weight_word.wgsl

struct Chunk {
    low: u32,
    low_shift: u32,
    high: u32,
    high_shift: u32,
    scales: vec2<f32>,
}

// Chunk number `chunk` of row n, whose values fill `chunks` of them.
fn chunk_at(n: u32, chunks: u32, chunk: u32) -> Chunk {
    let block = (n * ((chunks + 7u) / 8u) + chunk / 8u) * 105u;
    let half = chunk % 8u / 4u;
    let part = chunk % 4u;
    let scales = vec2<f32>(unpack4xI8(weight_word(block + 96u + half * 4u + part)).xy);
    return Chunk(
        block + half * 32u + part % 2u * 16u,
        part / 2u * 4u,
        block + 64u + half * 16u,
        part * 2u,
        scales * weight_half(block + 104u),
    );
}

// Values 4 i .. 4 i + 3 of the chunk.
fn chunk_four(chunk: Chunk, i: u32) -> vec4<f32> {
    let low = (weight_word(chunk.low + i * 2u) >> chunk.low_shift) & 0x0f0f0f0fu;
    let high = (weight_word(chunk.high + i * 2u) >> chunk.high_shift) & 0x03030303u;
    let scale = select(chunk.scales.x, chunk.scales.y, i >= 4u);
    return (vec4<f32>(unpack4xU8(low | (high << 4u))) - 32.0) * scale;
}
