// last_rows: output[s] = input[the last row of slot s].
// slots u32 [S, 4] (first row, row count); input f32 [T, columns]; output f32 [S, columns].
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
        let slot = slots[index / params.columns];
        output[index] = input[(slot.x + slot.y - 1u) * params.columns + index % params.columns];
    }
}
