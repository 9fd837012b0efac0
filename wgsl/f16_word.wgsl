// f16 is storage only: two values in a u32, the first one in the low half. unpack2x16float keeps subnormals.

fn half_of(word: u32, index: u32) -> f32 {
    let pair = unpack2x16float(word);
    return select(pair.x, pair.y, (index & 1u) == 1u);
}
