// softcap: output = cap * tanh(input / cap), elementwise. f32 [rows, columns].
//!include step.wgsl
//!include soft_cap.wgsl

struct Params {
    cap: f32,
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

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
            output[index] = soft_cap(input[index], params.cap);
        }
    }
}
