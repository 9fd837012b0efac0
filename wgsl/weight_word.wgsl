// Shared by the packed formats whose blocks begin at half-words: the including file declares `weight`, an array of words.
//!include f16_word.wgsl

// The four bytes that begin `half` half-words into the weight.
fn weight_word(half: u32) -> u32 {
    let word = weight[half >> 1u];
    let next = weight[(half + 1u) >> 1u];
    return select(word, (word >> 16u) | (next << 16u), (half & 1u) == 1u);
}

fn weight_half(half: u32) -> f32 {
    return half_of(weight[half >> 1u], half);
}
