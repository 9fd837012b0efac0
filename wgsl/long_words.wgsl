// Shared by the broadcast matmuls with blocks that begin at half-words. Loads are what such a product costs on a software
// GPU adapter, and one of 64 bits costs hardly more than one of 32.

@group(0) @binding(3) var<storage, read> weight: array<u64>;

// The four half-words that begin `shift` bits into `word`, a whole number of half-words.
fn joined(word: u64, next: u64, shift: u32) -> vec2<u32> {
    let four = (word >> shift) | ((next << 1u) << (63u - shift));
    return vec2<u32>(u32(four), u32(four >> 32u));
}

// Words from half-word `half` of the weight on: ten, of which seventeen half-words are good.
fn ten_words(half: u32) -> array<vec2<u32>, 5> {
    let at = half / 4u;
    let shift = half % 4u * 16u;
    let a = weight[at];
    let b = weight[at + 1u];
    let c = weight[at + 2u];
    let d = weight[at + 3u];
    let e = weight[at + 4u];
    return array<vec2<u32>, 5>(
        joined(a, b, shift), joined(b, c, shift), joined(c, d, shift), joined(d, e, shift), joined(e, e, shift)
    );
}

// The same of eight words, of which thirteen half-words are good.
fn eight_words(half: u32) -> array<vec2<u32>, 4> {
    let at = half / 4u;
    let shift = half % 4u * 16u;
    let a = weight[at];
    let b = weight[at + 1u];
    let c = weight[at + 2u];
    let d = weight[at + 3u];
    return array<vec2<u32>, 4>(joined(a, b, shift), joined(b, c, shift), joined(c, d, shift), joined(d, d, shift));
}
