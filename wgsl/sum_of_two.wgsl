// Shared by the residuals: output = a + b, elementwise, in f32.
//!include step.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> a: array<Activation>;
@group(0) @binding(3) var<storage, read> b: array<Activation>;
@group(0) @binding(4) var<storage, read_write> output: array<Activation>;

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
            output[index] = Activation(f32(a[index]) + f32(b[index]));
        }
    }
}
