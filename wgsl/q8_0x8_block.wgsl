// Q8_0x8 is Q8_0 with eight rows together, block by block. Eight neighbouring rows' blocks of 32
// values take 272 bytes, 17 loads of 128 bits: the eight d as f16, then the 32 signed bytes q of each row; value = d * q.

// Where the blocks of eight rows that begin at inner index `start` lie, in loads.
fn eights_at(eight: u32, inner: u32, start: u32) -> u32 {
    return (eight * (inner / 32u) + start / 32u) * 17u;
}
