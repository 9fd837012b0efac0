// recall: output[t] = each row's line of a state.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place);
// input, a state, f32 [places * capacity, columns]; output f32 [T, columns].
//!include each_value.wgsl
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

fn make_value(index: u32) {
    let line = state_line(rows[index / params.columns]);
    output[index] = input[line * params.columns + index % params.columns];
}
