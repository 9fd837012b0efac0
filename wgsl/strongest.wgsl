// Shared by the kernels that choose tokens: the strongest of a slot's tokens, found by 256 threads.
// A token is a pair (order, id); order 0, which no value has, is none. The kernel has `params.columns` and `input`.

const THREADS = 256u;
var<workgroup> orders: array<u32, THREADS>;
var<workgroup> ids: array<u32, THREADS>;

// Whether a is the stronger: of greater order, of equal ones of the lower id.
fn beats(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y < b.y);
}

fn stronger(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, beats(b, a));
}

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

// The strongest of all threads' tokens, the same in every thread. Every thread has to call it.
fn strongest(thread: u32, own: vec2<u32>) -> vec2<u32> {
    orders[thread] = own.x;
    ids[thread] = own.y;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            let other = thread + half;
            let found = stronger(vec2<u32>(orders[thread], ids[thread]), vec2<u32>(orders[other], ids[other]));
            orders[thread] = found.x;
            ids[thread] = found.y;
        }
        workgroupBarrier();
    }
    let order = workgroupUniformLoad(&orders[0]);
    return vec2<u32>(order, workgroupUniformLoad(&ids[0]));
}

// The token a slot's strongest one stands for.
fn token_of(best: vec2<u32>) -> u32 {
    return select(select(best.y, NO_TOKEN, best.x == NOTHING), BROKEN, best.x == NOT_A_NUMBER);
}
