// Q4_K: a block of 256 values in 144 bytes (36 words), eight sub-blocks of 32: value = d * scale_j * q - dmin * min_j.
//   word 0      d, dmin as two f16
//   words 1-3   twelve bytes b: scale and min of sub-block j, six bits each
//                 j < 4:  scale = b[j] & 63,                             min = b[j + 4] & 63
//                 j >= 4: scale = b[j + 4] & 15 | b[j - 4] >> 6 << 4,    min = b[j + 4] >> 4 | b[j] >> 6 << 4
//   words 4-35  q: 32 bytes for every 64 values, low nibbles the first 32 of them, high nibbles the next
// A row fills whole blocks, so that a row of K values takes ceil(K / 256) of them.

const Q4_K_WORDS = 36u;

// d * scale and dmin * min of sub-block j, from the block's words 0 to 3.
fn q4_k_scale(head: vec4<u32>, j: u32) -> vec2<f32> {
    let shift = j % 4u * 8u;
    let low = head.y >> shift;
    let middle = head.z >> shift;
    let high = head.w >> shift;
    let upper = vec2<u32>(high & 15u | (low >> 2u) & 48u, (high >> 4u) & 15u | (middle >> 2u) & 48u);
    let lower = vec2<u32>(low & 63u, middle & 63u);
    return unpack2x16float(head.x) * vec2<f32>(select(lower, upper, j >= 4u));
}

// Four neighbouring nibbles of a word, as numbers: the low ones of its bytes, or with shift 4 the high ones.
fn q4_k_four(word: u32, shift: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xU8((word >> shift) & 0x0f0f0f0fu));
}
