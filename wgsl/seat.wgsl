// seat: the step's rows with the tokens of their canvas, in place.
// slots u32 [S, 4] (fourth column: place); canvas, a state, u32 [places * capacity, 4], its first word a token;
// output: the rows, u32 [T, 4] (second column: position, third: slot).
//!include each_row.wgsl
//!include state_line.wgsl

struct Params {
    capacity: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> canvas: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<u32>>;

fn take_row(row: u32) {
    let line = output[row];
    output[row] = vec4<u32>(canvas[state_line(line)].x, line.yzw);
}
