// draw: output[s] = a token drawn from softmax(input[s] / temperature) within top_k, top_p and min_p (plan.sampling).
// rows u32 [S, 4] (second column: position); sampling u32 [S, 16]; input f32 [S, columns], read as bits;
// output u32 [S, 1]: NO_TOKEN where all are -inf, BROKEN where one is NaN. One workgroup per slot.
// The draw is the greatest of logit / temperature + Gumbel noise. exp, log and the division round as the device does.
//!include step.wgsl
//!include below.wgsl
//!include shortlist.wgsl
//!include philox.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> input: array<u32>;
@group(0) @binding(5) var<storage, read_write> output: array<u32>;

const WHOLE = 2147483648.0; // the weight of the best token
const FARTHEST = -27.0; // noise lies between -3.2 and 22.9: what is farther below the best can't be drawn

var<private> base: u32;
var<private> peak: u32;
var<private> temperature: f32;

fn order_of(id: u32) -> u32 {
    return order(input[base + id]);
}

fn below_peak(order: u32) -> f32 {
    return below(order, peak, temperature);
}

fn weight(order: u32) -> u32 {
    return select(u32(exp(below_peak(order)) * WHOLE), u32(WHOLE), order == peak);
}

// A token's score: its logit and its noise, as an order.
fn scored(order_here: u32, id: u32, word: u32) -> vec2<u32> {
    return vec2<u32>(order(bitcast<u32>(below_peak(order_here) + noise(word))), id);
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
    base = slot * params.columns;
    let settings = sampling[slot * 4u];
    let numbers = bitcast<vec4<f32>>(settings); // temperature, top_k, top_p, min_p
    temperature = numbers.x;
    let key = vec2<u32>(sampling[slot * 4u + 1u].w, sampling[slot * 4u + 2u].x);

    let own = strongest_own(thread, base);
    let best = strongest(thread, own);
    peak = best.x;
    if (best.x == NOTHING || best.x == NOT_A_NUMBER || numbers.x == 0.0) {
        if (thread == 0u) {
            output[slot] = token_of(best);
        }
        return;
    }

    let share = select(0u, max(1u, u32(numbers.z * 4294967296.0)), numbers.z < 1.0);
    let k = select(0u, settings.y, settings.y < params.columns);
    var cut = vec2<u32>(NOTHING + 1u, EVERY_ID);
    var count = BINS + 1u; // on the list, if they have room there
    if (k > 0u && k <= THREADS) {
        count = listed_down_to(thread, bound(thread, own, k));
    }
    if (count <= BINS) {
        cut = last_of_top_k(thread, count, k);
        if (share > 0u) {
            cut = last_of_top_p(thread, count, cut, share);
        }
    } else {
        if (k > 0u) {
            cut = narrowed(thread, cut, k, 0u);
        }
        if (share > 0u) {
            cut = narrowed(thread, cut, 1u, share);
        }
    }

    // What min_p asks for, as far as a token so far below the best can win at all.
    let least = max(FARTHEST, select(FARTHEST, log(numbers.w), numbers.w > 0.0));
    let position = rows[slot].y + 1u;
    var winner = vec2<u32>();
    if (count <= BINS) {
        for (var at = thread; at < count; at += THREADS) {
            let token = in_bin(at);
            if (survives(token.x, token.y, cut) && below_peak(token.x) >= least) {
                let words = philox(vec4<u32>(position, token.y / 4u, 0u, 0u), key);
                winner = stronger(winner, scored(token.x, token.y, words[token.y % 4u]));
            }
        }
    } else {
        for (var first = thread * 4u; first < params.columns; first += THREADS * 4u) {
            let found = orders_of(four_from(first));
            let top = max(max(found.x, found.y), max(found.z, found.w));
            // A branch, as in the search.
            for (var turn = u32(top >= cut.x && below_peak(top) >= least); turn > 0u; turn--) {
                let words = philox(vec4<u32>(position, first / 4u, 0u, 0u), key);
                for (var part = 0u; part < 4u; part++) {
                    let id = first + part;
                    if (id < params.columns && survives(found[part], id, cut) && below_peak(found[part]) >= least) {
                        winner = stronger(winner, scored(found[part], id, words[part]));
                    }
                }
            }
        }
    }
    let drawn = strongest(thread, winner);
    if (thread == 0u) {
        output[slot] = drawn.y;
    }
}
