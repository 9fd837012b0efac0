// Shared by the kernels that choose among a slot's tokens, [S, columns]: each thread's own strongest, and what the answer is.
// The kernel has `params.columns` and `input`.
//!include stronger.wgsl

// The strongest of the tokens that are the thread's own, those 256 apart, of the line that begins at `base`.
fn strongest_own(thread: u32, base: u32) -> vec2<u32> {
    var own = vec2<u32>();
    for (var first = thread; first < params.columns; first += 4u * THREADS) {
        // Four loads under way at a time.
        let mine = vec4<u32>(first, first + THREADS, first + 2u * THREADS, first + 3u * THREADS);
        let at = base + min(mine, vec4<u32>(params.columns - 1u));
        let bits = vec4<u32>(input[at.x], input[at.y], input[at.z], input[at.w]);
        let there = mine < vec4<u32>(params.columns);
        own = stronger(own, vec2<u32>(select(0u, order(bits.x), there.x), mine.x));
        own = stronger(own, vec2<u32>(select(0u, order(bits.y), there.y), mine.y));
        own = stronger(own, vec2<u32>(select(0u, order(bits.z), there.z), mine.z));
        own = stronger(own, vec2<u32>(select(0u, order(bits.w), there.w), mine.w));
    }
    return own;
}

// The token a slot's strongest one stands for.
fn token_of(best: vec2<u32>) -> u32 {
    return select(select(best.y, NO_TOKEN, best.x == NOTHING), BROKEN, best.x == NOT_A_NUMBER);
}
