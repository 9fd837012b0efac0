// Shared by the kernels that make one row of values out of a slot's rows: a thread a value. The including file declares
// fn slot_value(slot, column), slot: first row, row count.
// slots u32 [S, 4]; input f32 [T, columns]; output f32 [S, columns].
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
    if (index < step.sequences * params.columns) {
        output[index] = slot_value(slots[index / params.columns].xy, index % params.columns);
    }
}
