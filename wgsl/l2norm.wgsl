// l2norm: output = x / max(||x||, 1e-12) over the first `dimensions` values of a sequence's row, the rest 0.
// slots u32 [S, 4] (third column: dimensions); input, output f32 [S, columns]. One workgroup per sequence, f32 sum.
//!include step.wgsl
//!include workgroup_sum.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> input: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

const THREADS = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let sequence = group_index(workgroup, workgroups);
    if (sequence >= step.sequences) {
        return;
    }
    let base = sequence * params.columns;
    let dimensions = slots[sequence].z;

    var squares = 0.0;
    for (var column = thread; column < dimensions; column += THREADS) {
        let value = input[base + column];
        squares += value * value;
    }
    let norm = max(sqrt(workgroup_sum(thread, squares)), 1e-12);

    for (var column = thread; column < params.columns; column += THREADS) {
        output[base + column] = select(0.0, input[base + column] / norm, column < dimensions);
    }
}
