// Shared short way: a small top_k needs no search. Each of 256 threads knows the strongest of its own tokens, and the
// k-th strongest of those bounds the k-th strongest of all: what is not weaker is a short list, unless many tie.
// The list lies in the bins of the search: `low` holds orders, `high` ids.
//!include narrow.wgsl

var<workgroup> listed: atomic<u32>;
var<workgroup> weights: array<u32, BINS>;

// The k-th strongest of the threads' own; every allowed token is as strong where so many have none. k <= THREADS.
fn bound(thread: u32, own: vec2<u32>, k: u32) -> vec2<u32> {
    orders[thread] = own.x;
    ids[thread] = own.y;
    workgroupBarrier();
    var before = 0u;
    for (var other = 0u; other < THREADS; other++) {
        let another = vec2<u32>(orders[other], ids[other]);
        before += u32(beats(another, own) || (all(another == own) && other < thread));
    }
    if (before == k - 1u) {
        chosen = select(vec2<u32>(NOTHING + 1u, EVERY_ID), own, own.x > NOTHING);
    }
    return workgroupUniformLoad(&chosen);
}

// List the tokens down to `cut`; how many they are, perhaps more than there is room for.
fn listed_down_to(thread: u32, cut: vec2<u32>) -> u32 {
    if (thread == 0u) {
        atomicStore(&listed, 0u);
    }
    workgroupBarrier();
    for (var first = thread * 4u; first < params.columns; first += THREADS * 4u) {
        let mine = four_from(first);
        let own = orders_of(mine);
        // A branch, as in the search.
        for (var turn = u32(any(own >= vec4<u32>(cut.x))); turn > 0u; turn--) {
            for (var part = 0u; part < 4u; part++) {
                if (first + part < params.columns && survives(own[part], mine[part], cut)) {
                    let at = atomicAdd(&listed, 1u);
                    if (at < BINS) {
                        atomicStore(&low[at], own[part]);
                        atomicStore(&high[at], mine[part]);
                    }
                }
            }
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        chosen = vec2<u32>(atomicLoad(&listed), 0u);
    }
    return workgroupUniformLoad(&chosen).x;
}

// The k-th strongest of `count` tokens on the list, or what every allowed token survives where they are fewer.
fn last_of_top_k(thread: u32, count: u32, k: u32) -> vec2<u32> {
    if (count < k) {
        return vec2<u32>(NOTHING + 1u, EVERY_ID);
    }
    for (var at = thread; at < count; at += THREADS) {
        let own = in_bin(at);
        var before = 0u;
        for (var other = 0u; other < count; other++) {
            before += u32(beats(in_bin(other), own));
        }
        if (before == k - 1u) {
            chosen = own;
        }
    }
    return workgroupUniformLoad(&chosen);
}

// The last token of the fewest strongest that hold such a share of the weight, of those on the list down to `cut`.
fn last_of_top_p(thread: u32, count: u32, cut: vec2<u32>, share: u32) -> vec2<u32> {
    for (var at = thread; at < count; at += THREADS) {
        let own = in_bin(at);
        weights[at] = select(0u, weight(own.x), survives(own.x, own.y, cut));
    }
    workgroupBarrier();
    for (var at = thread; at < count; at += THREADS) {
        let own = in_bin(at);
        var total = vec2<u32>();
        var before = vec2<u32>();
        for (var other = 0u; other < count; other++) {
            let amount = vec2<u32>(weights[other], 0u);
            total = sum(total, amount);
            before = sum(before, select(vec2<u32>(), amount, beats(in_bin(other), own)));
        }
        let wanted = at_least_one(share_of(total, share));
        if (!reaches(before, wanted) && reaches(sum(before, vec2<u32>(weights[at], 0u)), wanted)) {
            chosen = own;
        }
    }
    return workgroupUniformLoad(&chosen);
}
