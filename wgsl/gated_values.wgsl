// Shared by the gates: output = gelu(gate) * up, or gelu(gate) alone when HAS_GATE is false. Elementwise, in f32.
//!include each_value.wgsl
//!include gelu_tanh.wgsl

override HAS_GATE: bool = true;

struct Params {
    columns: u32,
    up_first: u32,
    gate_columns: u32,
    up_columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> gate: array<Activation>;
@group(0) @binding(3) var<storage, read> up: array<Activation>;
@group(0) @binding(4) var<storage, read_write> output: array<Activation>;

fn make_value(index: u32) {
    let row = index / params.columns;
    let column = index % params.columns;
    var value = gelu_tanh(f32(gate[row * params.gate_columns + column]));
    if (HAS_GATE) {
        value *= f32(up[row * params.up_columns + params.up_first + column]);
    }
    output[index] = Activation(value);
}
