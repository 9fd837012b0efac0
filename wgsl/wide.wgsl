// Shared whole numbers of 64 bits, as two words, the low one first.

fn sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let first = a.x + b.x;
    return vec2<u32>(first, a.y + b.y + u32(first < a.x));
}

fn reaches(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y > b.y || (a.y == b.y && a.x >= b.x);
}

// By halves of 16 bits: no partial sum passes 32.
fn product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (cross >> 16u) + (other >> 16u);
    return vec2<u32>((other << 16u) | (low & 0xffffu), high);
}

// share / 2^32 of the total, rounded down.
fn share_of(total: vec2<u32>, share: u32) -> vec2<u32> {
    return sum(product(total.y, share), vec2<u32>(product(total.x, share).y, 0u));
}

fn at_least_one(a: vec2<u32>) -> vec2<u32> {
    return select(a, vec2<u32>(1u, 0u), all(a == vec2<u32>()));
}
