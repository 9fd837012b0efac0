// Shared by the kernels that read Q8_0: 32 neighbouring values of a row, a chunk, ready to be expanded by fours.
// A block is a chunk, in 34 bytes (17 half-words): d as f16, then 32 signed bytes q; value = d * q.
//!include weight_word.wgsl

struct Chunk {
    at: u32,
    scale: f32,
}

// Chunk number `chunk` of row n, whose values fill `chunks` of them.
fn chunk_at(n: u32, chunks: u32, chunk: u32) -> Chunk {
    let block = (n * chunks + chunk) * 17u;
    return Chunk(block + 1u, weight_half(block));
}

// Values 4 i .. 4 i + 3 of the chunk.
fn chunk_four(chunk: Chunk, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(weight_word(chunk.at + i * 2u))) * chunk.scale;
}
