// Shared search: the last token of the smallest set of best tokens that holds so many of them, or such a share of their
// weight. Tokens are counted, or their weights added, in 1,024 bins of orders, then in 1,024 bins of the bin that holds
// the last one, until one order is left, and among equal orders one id: nothing is sorted. Weights are whole numbers in
// 64 bits: their sum is the same whoever adds first.
// The kernel has `params.columns`, `order_of(id)`, `weight(order)` and `peak`, the greatest order.
//!include strongest.wgsl
//!include wide.wgsl

const BINS = 1024u;
const BIN_BITS = 10u;
const EVERY_ID = 0xffffffffu;

// What lies in each bin, in two words.
var<workgroup> low: array<atomic<u32>, BINS>;
var<workgroup> high: array<atomic<u32>, BINS>;
// The bin that the search goes on in, and whether it is in whole.
var<workgroup> chosen: vec2<u32>;

// Four ids; past the end the last one comes again.
fn four_from(first: u32) -> vec4<u32> {
    return min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(params.columns - 1u));
}

fn orders_of(ids: vec4<u32>) -> vec4<u32> {
    return vec4<u32>(order_of(ids.x), order_of(ids.y), order_of(ids.z), order_of(ids.w));
}

// Whether a token is among those down to `cut`, (order, id).
fn survives(order: u32, id: u32, cut: vec2<u32>) -> bool {
    return order > cut.x || (order == cut.x && id <= cut.y);
}

fn add_to(bin: u32, amount: u32) {
    let before = atomicAdd(&low[bin], amount);
    if (before + amount < before) {
        atomicAdd(&high[bin], 1u);
    }
}

fn in_bin(bin: u32) -> vec2<u32> {
    return vec2<u32>(atomicLoad(&low[bin]), atomicLoad(&high[bin]));
}

// The last token, (order, id), of the smallest set of best tokens that holds `wanted` tokens, or where `share` is not 0
// that share of the weight. Only tokens down to `cut` are there.
fn narrowed(thread: u32, cut: vec2<u32>, wanted_tokens: u32, share: u32) -> vec2<u32> {
    var greatest = peak;
    var least = cut.x;
    var tied = false; // whether the search is among the ids of one order
    var tie = 0u;
    var wanted = vec2<u32>(wanted_tokens, 0u); // these two are thread 0's
    var passed = vec2<u32>();
    for (var round = 0u; round < 8u; round++) {
        let bits = 32u - countLeadingZeros(greatest - least);
        let shift = max(bits, BIN_BITS) - BIN_BITS;
        for (var bin = thread; bin < BINS; bin += THREADS) {
            atomicStore(&low[bin], 0u);
            atomicStore(&high[bin], 0u);
        }
        workgroupBarrier();
        for (var first = thread * 4u; first < params.columns; first += THREADS * 4u) {
            let mine = four_from(first);
            let own = orders_of(mine);
            let keys = select(own, ~mine, vec4<bool>(tied));
            let in_range = (keys >= vec4<u32>(least)) & (keys <= vec4<u32>(greatest));
            let in_tie = vec4<bool>(!tied) | (own == vec4<u32>(tie));
            let there = in_range & in_tie & ((own != vec4<u32>(cut.x)) | (mine <= vec4<u32>(cut.y)));
            // A loop of one turn or none: software devices compute both sides of a branch, but leave a loop.
            for (var turn = u32(any(there)); turn > 0u; turn--) {
                for (var part = 0u; part < 4u; part++) {
                    if (there[part] && first + part < params.columns) {
                        var amount = 1u;
                        if (share != 0u) {
                            amount = weight(own[part]);
                        }
                        add_to((greatest - keys[part]) >> shift, amount);
                    }
                }
            }
        }
        workgroupBarrier();

        // Four bins a thread, then one thread looks on.
        let first = thread * (BINS / THREADS);
        let four = sum(sum(in_bin(first), in_bin(first + 1u)), sum(in_bin(first + 2u), in_bin(first + 3u)));
        orders[thread] = four.x;
        ids[thread] = four.y;
        workgroupBarrier();
        if (thread == 0u) {
            if (share != 0u && round == 0u) {
                var total = vec2<u32>();
                for (var part = 0u; part < THREADS; part++) {
                    total = sum(total, vec2<u32>(orders[part], ids[part]));
                }
                wanted = at_least_one(share_of(total, share));
            }
            var part = 0u;
            var next = sum(passed, vec2<u32>(orders[0], ids[0]));
            for (; part + 1u < THREADS && !reaches(next, wanted); part++) {
                passed = next;
                next = sum(passed, vec2<u32>(orders[part + 1u], ids[part + 1u]));
            }
            var bin = part * (BINS / THREADS);
            let end = bin + BINS / THREADS - 1u;
            next = sum(passed, in_bin(bin));
            for (; bin < end && !reaches(next, wanted); bin++) {
                passed = next;
                next = sum(passed, in_bin(bin + 1u));
            }
            var one = 1u;
            if (share != 0u) {
                one = weight(greatest - bin);
            }
            let alone = shift == 0u && (tied || all(in_bin(bin) == vec2<u32>(one, 0u)));
            chosen = vec2<u32>(bin, u32(alone || all(next == wanted) || !reaches(next, wanted)));
        }
        let found = workgroupUniformLoad(&chosen);
        // A set that all tokens do not fill ends in the last bin, perhaps past the least.
        greatest -= min(found.x << shift, greatest - least);
        least = greatest - min((1u << shift) - 1u, greatest - least);
        if (found.y != 0u) {
            break;
        }
        if (shift == 0u) {
            tied = true;
            tie = greatest;
            greatest = EVERY_ID;
            least = ~(params.columns - 1u);
        }
    }
    if (tied) {
        return vec2<u32>(tie, ~least);
    }
    return vec2<u32>(least, select(EVERY_ID, cut.y, least == cut.x));
}
