// pool: output[s, c] = mean over the rows of slot s of input[row, c].
// slots u32 [S, 4] (first row, row count); input f32 [T, columns]; output f32 [S, columns]. f32 sum in row order.
//!include step.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> input: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(workgroup, workgroups) * 64u + thread;
    if (index >= step.sequences * params.columns) {
        return;
    }
    let slot = slots[index / params.columns];
    let column = index % params.columns;
    var sum = 0.0;
    for (var row = slot.x; row < slot.x + slot.y; row++) {
        sum += input[row * params.columns + column];
    }
    output[index] = sum / f32(slot.y);
}
