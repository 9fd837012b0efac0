// logprobs: log-probabilities of softmax(input[s]): the sampled token's, and the 20 greatest with their tokens.
// input f32 [S, columns], read as bits; sampled u32 [S, 1]; output u32 [S, 42]: bits of an f32, 0, then 20 pairs of a
// token and bits of an f32, the greatest first, of equal ones the lower id first; NO_TOKEN and -inf past the vocabulary.
// All 0 where no token was sampled. One workgroup per slot; sums in f32.
//!include step.wgsl
//!include order.wgsl
//!include strongest.wgsl
//!include workgroup_sum.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<u32>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;

const TOP = 20u;
const WORDS = 42u;

fn below(order: u32, best: u32) -> f32 {
    return select(ordered_value(order) - ordered_value(best), 0.0, order == best);
}

// As bits: WGSL has no value for -inf.
fn log_probability(order: u32, best: u32, log_sum: f32) -> u32 {
    return select(bitcast<u32>(below(order, best) - log_sum), 0xff800000u, order <= NOTHING);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let slot = group_index(workgroup, workgroups);
    if (slot >= step.rows) {
        return;
    }
    let base = slot * params.columns;
    if (sampled[slot] >= params.columns) {
        if (thread < WORDS) {
            output[slot * WORDS + thread] = 0u;
        }
        return;
    }

    var own = strongest_own(thread, base);
    let best = strongest(thread, own).x;
    var sum = 0.0;
    for (var id = thread; id < params.columns; id += THREADS) {
        sum += exp(max(below(order(input[base + id]), best), -100.0));
    }
    let log_sum = log(workgroup_sum(thread, sum));

    for (var rank = 0u; rank < TOP; rank++) {
        let top = strongest(thread, own);
        if (thread == 0u) {
            let at = slot * WORDS + 2u + 2u * rank;
            output[at] = select(top.y, NO_TOKEN, top.x == 0u);
            output[at + 1u] = log_probability(top.x, best, log_sum);
        }
        // All look for what is then the strongest of the thread whose own it was.
        let owner = top.y % THREADS;
        var next = vec2<u32>();
        for (var id = owner + thread * THREADS; id < params.columns; id += THREADS * THREADS) {
            let found = order(input[base + id]);
            if (found < top.x || (found == top.x && id > top.y)) {
                next = stronger(next, vec2<u32>(found, id));
            }
        }
        let following = strongest(thread, next);
        if (thread == owner) {
            own = following;
        }
    }
    if (thread == 0u) {
        output[slot * WORDS] = log_probability(order(input[base + sampled[slot]]), best, log_sum);
        output[slot * WORDS + 1u] = 0u;
    }
}
