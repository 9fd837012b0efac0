// Shared by the kernels that read Q5_0: 32 neighbouring values of a row, a chunk, ready to be expanded by fours.
// A block is a chunk, in 22 bytes (11 half-words): d as f16; a word of fifth bits, bit j value j's; 16 bytes of nibbles,
// the low ones values 0 to 15, the high ones 16 to 31; value = d * (q - 16).
//!include weight_word.wgsl

struct Chunk {
    at: u32,
    fifth: u32,
    scale: f32,
}

// Chunk number `chunk` of row n, whose values fill `chunks` of them.
fn chunk_at(n: u32, chunks: u32, chunk: u32) -> Chunk {
    let block = (n * chunks + chunk) * 11u;
    return Chunk(block + 3u, weight_word(block + 1u), weight_half(block));
}

// Values 4 i .. 4 i + 3 of the chunk.
fn chunk_four(chunk: Chunk, i: u32) -> vec4<f32> {
    let nibbles = (weight_word(chunk.at + i % 4u * 2u) >> (i / 4u * 4u)) & 0x0f0f0f0fu;
    // Four bits side by side, each to bit 4 of a byte of its own.
    let bits = chunk.fifth >> (i * 4u);
    let fifth = ((bits & 1u) << 4u) | ((bits & 2u) << 11u) | ((bits & 4u) << 18u) | ((bits & 8u) << 25u);
    return (vec4<f32>(unpack4xU8(nibbles | fifth)) - 16.0) * chunk.scale;
}
