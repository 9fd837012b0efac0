// Shared by the packed formats whose blocks begin at half-words. The including file gives `weight_at`, a word of the weight.
//!include f16_word.wgsl

// The four bytes that begin `half` half-words into the weight.
fn weight_word(half: u32) -> u32 {
    let word = weight_at(half >> 1u);
    let next = weight_at((half + 1u) >> 1u);
    return select(word, (word >> 16u) | (next << 16u), (half & 1u) == 1u);
}

fn weight_half(half: u32) -> f32 {
    return half_of(weight_at(half >> 1u), half);
}
