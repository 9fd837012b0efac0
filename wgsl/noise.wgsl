// noise: what chance adds to each position of a canvas in this step, into its line of the state (plan.canvas.step_noise).
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); sampling u32 [S, 16];
// output, a state, u32 [places * capacity, 2], of which only these lines change: the bits of an f32 between 0 and 1, a
// token. Both are exact: of words 0 and 1 of the counter (position, steps left, 1, 0).
//!include each_row.wgsl
//!include state_line.wgsl
//!include philox.wgsl

struct Params {
    capacity: u32,
    vocabulary: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> output: array<vec2<u32>>;

fn take_row(row: u32) {
    let settings = rows[row].z * 4u;
    let key = vec2<u32>(sampling[settings + 1u].w, sampling[settings + 2u].x);
    let words = philox(vec4<u32>(rows[row].y, sampling[settings + 2u].z, 1u, 0u), key);
    let u = (f32(words.x >> 9u) + 0.5) / 8388608.0;
    output[state_line(rows[row])] = vec2<u32>(bitcast<u32>(u), product(words.y, params.vocabulary).y);
}
