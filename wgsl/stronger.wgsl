// Shared by the kernels that choose tokens: the strongest of the tokens that threads, 256 of them, each bring.
// A token is a pair (order, id); order 0, which no value has, is none.

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

// The strongest of the tokens of `lanes` neighbouring threads (a power of two), for each of them. Every thread has to
// call it; a barrier has to stand before a second call.
fn strongest_of(thread: u32, lanes: u32, own: vec2<u32>) -> vec2<u32> {
    orders[thread] = own.x;
    ids[thread] = own.y;
    workgroupBarrier();
    for (var half = lanes / 2u; half > 0u; half /= 2u) {
        if (thread % lanes < half) {
            let other = thread + half;
            let found = stronger(vec2<u32>(orders[thread], ids[thread]), vec2<u32>(orders[other], ids[other]));
            orders[thread] = found.x;
            ids[thread] = found.y;
        }
        workgroupBarrier();
    }
    let first = thread - thread % lanes;
    return vec2<u32>(orders[first], ids[first]);
}

// The strongest of all threads' tokens, the same in every thread. Every thread has to call it.
fn strongest(thread: u32, own: vec2<u32>) -> vec2<u32> {
    strongest_of(thread, THREADS, own);
    let order = workgroupUniformLoad(&orders[0]);
    return vec2<u32>(order, workgroupUniformLoad(&ids[0]));
}
