// gated_matmul: output[r, n] = sum over k of gelu(gate[r, k]) * up[r, up_first + k] * weight[n, k], for few rows.
// gate f32 [R, gate_columns], of which the first K; up f32 [R, up_columns]; weight Q4_K [N, K], K a multiple of 32, staying
// packed; output f32 [R, N]. All by fours, all sums in f32. 16 lanes make a column, a workgroup 16 columns; each
// workgroup makes the gated values anew, which costs less than a dispatch of their own.
//!include step.wgsl
//!include q4_k_chunk.wgsl
//!include column_sum.wgsl
//!include gelu_tanh.wgsl

struct Params {
    columns: u32,
    inner: u32,
    gate_columns: u32,
    up_first: u32,
    up_columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> gate: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> up: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

const LANES = 16u;

fn weight_at(index: u32) -> u32 {
    return weight[index];
}

fn gated(row: u32, k: u32) -> vec4<f32> {
    let x = gate[(row * params.gate_columns + k) / 4u];
    let activated = vec4<f32>(gelu_tanh(x.x), gelu_tanh(x.y), gelu_tanh(x.z), gelu_tanh(x.w));
    return activated * up[(row * params.up_columns + params.up_first + k) / 4u];
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let columns = THREADS / LANES;
    let tiles = (params.columns + columns - 1u) / columns;
    let group = group_index(workgroup, workgroups);
    let row = group / tiles;
    let column = group % tiles * columns + thread / LANES;
    let chunks = params.inner / 32u;
    // Past the end the last one is repeated: what comes of it is not stored.
    let n = min(column, params.columns - 1u);
    var sum = 0.0;
    for (var index = thread % LANES; index < chunks; index += LANES) {
        let chunk = chunk_at(n, chunks, index);
        for (var i = 0u; i < 8u; i++) {
            sum += dot(gated(min(row, step.rows - 1u), index * 32u + i * 4u), chunk_four(chunk, i));
        }
    }
    sum = column_sum(thread, LANES, sum);
    if (thread % LANES == 0u && row < step.rows && column < params.columns) {
        output[row * params.columns + column] = sum;
    }
}
