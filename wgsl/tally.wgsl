// tally: what a tile of logits says of each row's weights, put into the row's line of the state.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); sampling u32 [S, 16];
// input f32 [T, columns], read as bits, of the tokens from `first` on, a multiple of 256; output, a state, u32
// [places * capacity, output_columns] by fours. The first four of a line: the greatest logit before this tile and with it
// (bits), two that nobody reads. Then of each block of 256 tokens: the greatest logit, the sum of the weights exp((logit -
// greatest) / temperature), that of weight * (logit - greatest) / temperature (bits), the token of the greatest, of equal
// ones the first. A NaN is the greatest. One workgroup per row, 8 threads a block; sums in f32.
//!include step.wgsl
//!include state_line.wgsl
//!include below.wgsl
//!include stronger.wgsl

struct Params {
    columns: u32,
    first: u32,
    capacity: u32,
    output_columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> input: array<u32>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<u32>>;

const LANES = 8u;
const BLOCK = 256u;
var<workgroup> sums: array<vec2<f32>, THREADS>;

// The sum over the LANES neighbouring threads of a block, as a tree, so that its order is fixed.
fn block_sum(thread: u32, own: vec2<f32>) -> vec2<f32> {
    sums[thread] = own;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if (thread % LANES < half) {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    return sums[thread - thread % LANES];
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
    let temperature = bitcast<f32>(sampling[rows[row].z * 4u].x);
    let base = row * params.columns;
    let line = state_line(rows[row]) * (params.output_columns / 4u);
    let lane = thread % LANES;

    var greatest = vec2<u32>();
    for (var start = 0u; start < params.columns; start += THREADS / LANES * BLOCK) {
        let begin = start + thread / LANES * BLOCK;
        let end = min(begin + BLOCK, params.columns);
        var own = vec2<u32>();
        for (var at = begin + lane; at < end; at += LANES) {
            own = stronger(own, vec2<u32>(order(input[base + at]), at));
        }
        let best = strongest_of(thread, LANES, own);
        var part = vec2<f32>();
        for (var at = begin + lane; at < end; at += LANES) {
            let under = below(order(input[base + at]), best.x, temperature);
            part += exp(under) * vec2<f32>(1.0, under);
        }
        let whole = block_sum(thread, part);
        if (lane == 0u && begin < params.columns) {
            let token = params.first + best.y;
            output[line + 1u + token / BLOCK] = vec4<u32>(ordered_bits(best.x), bitcast<vec2<u32>>(whole), token);
        }
        greatest = stronger(greatest, best);
        workgroupBarrier();
    }

    let best = strongest(thread, greatest);
    if (thread == 0u) {
        let before = select(order(output[line].y), NOTHING, params.first == 0u);
        output[line] = vec4<u32>(ordered_bits(before), ordered_bits(max(before, best.x)), output[line].zw);
    }
}
