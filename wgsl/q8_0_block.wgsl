// Q8_0: a block of 32 values in 34 bytes: d as f16, then 32 signed bytes; value = d * q.
// A block begins at an even byte, so that every other one straddles the words by two bytes.

// The four bytes that begin `half` half-words into the buffer; `next` is only used when half is odd.
fn straddling(word: u32, next: u32, half: u32) -> u32 {
    return select(word, (word >> 16u) | (next << 16u), (half & 1u) == 1u);
}
