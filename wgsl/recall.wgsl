// recall: output[t] = each row's line of a state.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place);
// input, a state, f32 [places * capacity, columns]; output f32 [T, columns].
//!include step.wgsl
//!include state_line.wgsl

struct Params {
    columns: u32,
    capacity: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> input: array<f32>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = group_index(workgroup, workgroups) * 1024u + thread;
    for (var part = 0u; part < 4u; part++) {
        let index = first + part * 256u;
        if (index < step.rows * params.columns) {
            let line = state_line(rows[index / params.columns]);
            output[index] = input[line * params.columns + index % params.columns];
        }
    }
}
