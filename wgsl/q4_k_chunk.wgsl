// Shared by the kernels that read Q4_K: 32 neighbouring values of a row, a chunk, ready to be expanded by fours.
// A chunk is a sub-block. The including file gives `weight_at`, a word of the weight.
//!include q4_k_block.wgsl

struct Chunk {
    at: u32,
    shift: u32,
    scale: vec2<f32>,
}

// Chunk number `chunk` of row n, whose values fill `chunks` of them.
fn chunk_at(n: u32, chunks: u32, chunk: u32) -> Chunk {
    let block = (n * ((chunks + 7u) / 8u) + chunk / 8u) * Q4_K_WORDS;
    let head = vec4<u32>(weight_at(block), weight_at(block + 1u), weight_at(block + 2u), weight_at(block + 3u));
    let j = chunk % 8u;
    return Chunk(block + 4u + j / 2u * 8u, j % 2u * 4u, q4_k_scale(head, j));
}

// Values 4 i .. 4 i + 3 of the chunk.
fn chunk_four(chunk: Chunk, i: u32) -> vec4<f32> {
    return q4_k_four(weight_at(chunk.at + i), chunk.shift) * chunk.scale.x - chunk.scale.y;
}
