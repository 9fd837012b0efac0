// soften: the soft embedding made whole, in place: soft[t] * scale / the sum of the weights.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); picks u32 [T, 4], whose
// fourth word is the bits of 1 / that sum; output, a state, f32 [places * capacity, columns], of which only these lines change.
//!include each_value.wgsl
//!include state_line.wgsl

struct Params {
    columns: u32,
    capacity: u32,
    scale: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> picks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

fn make_value(index: u32) {
    let row = index / params.columns;
    let at = state_line(rows[row]) * params.columns + index % params.columns;
    output[at] *= params.scale * bitcast<f32>(picks[row].w);
}
