// gather: output[r, c] = weight[id of row r, c] * scale, the table staying packed on the device, on software GPU adapters.
// rows u32 [R, 4]; weight Q8_0x8 [V, columns], columns a multiple of 32; output f32 [R, columns].
//!include step.wgsl
//!include q8_0x8_block.wgsl
//!include f16_word.wgsl
//!include packed_gather.wgsl

struct Chunk {
    at: u32,
    scale: f32,
}

// Chunk number `chunk` of row n, whose values fill `chunks` of them. A load of 128 bits is four words.
fn chunk_at(n: u32, chunks: u32, chunk: u32) -> Chunk {
    let first = eights_at(n / 8u, chunks * 32u, chunk * 32u) * 4u;
    let own = n % 8u;
    return Chunk(first + 4u + own * 8u, half_of(weight_at(first + own / 2u), own));
}

// Values 4 i .. 4 i + 3 of the chunk.
fn chunk_four(chunk: Chunk, i: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(weight_at(chunk.at + i))) * chunk.scale;
}
