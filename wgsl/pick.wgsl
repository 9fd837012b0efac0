// pick: what each row's weights choose: a sample, the likeliest token, the entropy, what the weights sum to.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); sampling u32 [S, 16];
// hidden f32 [T, inner], inner a multiple of 4; tally, a state, u32 [places * capacity, tally_columns] by fours (tally.wgsl);
// noise, a state, u32 [places * capacity, 2], whose first word is the bits of an f32 between 0 and 1; weight, the head, f16
// or f32 [vocabulary, inner]; output u32 [T, 4]: the sample, the likeliest token, the bits of the entropy in nats and of
// 1 / the sum of exp((logit - greatest) / temperature): of NaN where a logit is one.
// The sample is the first token at which the running sum exceeds noise * the sum of all. It is looked for by the block of 256
// tokens, and in its block by their logits, made again: hidden weight^T, capped softly where cap is above 0. Rounding may have
// made them others than those of the tally, so that they are weighed among themselves: at a low temperature a hair is much.
// The head is bound in sections of whole blocks: a dispatch does the rows whose block begins in [first_row, first_row +
// row_count). One workgroup per row; sums in f32.
//!include step.wgsl
//!include state_line.wgsl
//!include below.wgsl
//!include stronger.wgsl
//!include running_sum.wgsl
//!include dense_four.wgsl
//!include soft_cap.wgsl

struct Params {
    inner: u32,
    cap: f32,
    capacity: u32,
    tally_columns: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> hidden: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> tally: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> noise: array<vec2<u32>>;
@group(0) @binding(8) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(9) var<storage, read_write> output: array<vec4<u32>>;

const BLOCK = 256u; // as many as threads
const GREEDY = 8u;
const QUIET_NAN = 0x7fc00000u;
var<workgroup> chosen: u32; // the block, in which compilers see that all threads have the same

// An amount brought below `total`, so that the running sum of which it is the last one exceeds it.
fn within(amount: f32, total: f32) -> f32 {
    return min(amount, bitcast<f32>(bitcast<u32>(total) - 1u));
}

// The first thread with some weight whose running sum exceeds the aim; where rounding leaves none, the first of the greatest.
fn first_of(thread: u32, weight: f32, sum: f32, aim: f32, greatest: bool) -> u32 {
    return strongest(thread, vec2<u32>(select(u32(greatest), 2u, weight > 0.0 && sum > aim), thread)).y;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group_index(workgroup, workgroups);
    if (row >= step.rows) {
        return;
    }
    let settings = rows[row].z * 4u;
    let temperature = bitcast<f32>(sampling[settings].x);
    let line = state_line(rows[row]);
    let blocks = params.tally_columns / 4u - 1u;
    let tallied = line * (blocks + 1u) + 1u;

    // Each thread has some neighbouring blocks.
    let each = (blocks + THREADS - 1u) / THREADS;
    let end = min(thread * each + each, blocks);
    var own = vec2<u32>();
    for (var block = thread * each; block < end; block++) {
        own = stronger(own, vec2<u32>(order(tally[tallied + block].x), tally[tallied + block].w));
    }
    let best = strongest(thread, own);
    var sum = 0.0;
    var slope = 0.0;
    for (var block = thread * each; block < end; block++) {
        let known = bitcast<vec4<f32>>(tally[tallied + block]); // greatest, sum, slope, token
        let under = below(order(tally[tallied + block].x), best.x, temperature);
        sum += exp(under) * known.y;
        slope += exp(under) * (known.z + known.y * under);
    }
    running_sum(thread, slope);
    let slopes = running[THREADS - 1u];
    let sums = running_sum(thread, sum);
    let whole = running[THREADS - 1u];
    let broken = best.x == NOT_A_NUMBER;
    let entropy = select(bitcast<u32>(max(log(whole) - slopes / whole, 0.0)), QUIET_NAN, broken);
    let inverse = select(bitcast<u32>(1.0 / whole), QUIET_NAN, broken);

    let aim = within(bitcast<f32>(noise[line].x) * whole, whole);
    let owner = first_of(thread, sum, sums, aim, own.x == best.x);
    // How far the aim is into the block, of which mass is the weight, block by block of the thread that has it.
    var rest = max(aim - select(0.0, running[max(owner, 1u) - 1u], owner > 0u), 0.0);
    var block = owner * each;
    var mass = 0.0;
    for (var next = block; next < min(owner * each + each, blocks); next++) {
        let under = below(order(tally[tallied + next].x), best.x, temperature);
        let weighs = exp(under) * bitcast<f32>(tally[tallied + next].y);
        if (weighs > 0.0 && rest >= mass) {
            rest -= mass;
            mass = weighs;
            block = next;
        }
    }
    let certain = broken || (sampling[settings + 2u].y & GREEDY) != 0u;
    if (thread == 0u) {
        chosen = select(block, best.y / BLOCK, certain);
    }
    let begin = workgroupUniformLoad(&chosen) * BLOCK;
    let first = begin - params.first_row;
    if (first >= params.row_count) {
        return;
    }
    if (certain) {
        if (thread == 0u) {
            output[row] = vec4<u32>(best.y, best.y, entropy, inverse);
        }
        return;
    }

    let there = first + thread < params.row_count;
    var ranked = 0u;
    if (there) {
        let fours = params.inner / 4u;
        var logit = 0.0;
        for (var four = 0u; four < fours; four++) {
            logit += dot(hidden[row * fours + four], weight_four((first + thread) * fours + four));
        }
        if (params.cap > 0.0) {
            logit = soft_cap(logit, params.cap);
        }
        ranked = order(bitcast<u32>(logit));
    }
    let top = strongest(thread, vec2<u32>(ranked, thread)).x;
    let weighs = select(0.0, exp(below(ranked, top, temperature)), there);
    let ends = running_sum(thread, weighs);
    let last = running[THREADS - 1u];
    let sample = first_of(thread, weighs, ends, within(rest / mass * last, last), ranked == top);
    if (thread == 0u) {
        output[row] = vec4<u32>(begin + sample, best.y, entropy, inverse);
    }
}
