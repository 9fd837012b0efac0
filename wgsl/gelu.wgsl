// gelu: output = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) * up, with g = gate; without up when HAS_GATE is false.
// gate, output f32 [rows, columns]; up f32 [rows, up_columns], of which the columns from up_first on are taken.
//!include step.wgsl
//!include gelu_tanh.wgsl

override HAS_GATE: bool = true;

struct Params {
    columns: u32,
    up_first: u32,
    up_columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> gate: array<f32>;
@group(0) @binding(3) var<storage, read> up: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

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
            var value = gelu_tanh(gate[index]);
            if (HAS_GATE) {
                value *= up[index / params.columns * params.up_columns + params.up_first + index % params.columns];
            }
            output[index] = value;
        }
    }
}
