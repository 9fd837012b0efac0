// Shared by the expert matmuls: output[r, i, n] = sum over k of input[r, k] * weight[e, n, k], e the expert of row r's
// route i. A route is known by its number, r * chosen + i.
// The including file says what type Activation is, of input and output, declares `weight` (binding 4) and gives
//   sixteen(line, k): weights k .. k + 15 (k a multiple of 16) of a line of the bound section, by fours; 0 past K
// The weight's lines, [E * columns, K], are bound in sections: this dispatch makes what comes of the lines
// [first_row, first_row + row_count).

struct Params {
    columns: u32,
    inner: u32,
    chosen: u32,
    parts: u32,
    own_inputs: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<vec4<Activation>>;
@group(0) @binding(3) var<storage, read> routes: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> output: array<Activation>;

// Inputs k .. k + 3 (k a multiple of 4) of a route; 0 past K.
fn input4(route: u32, k: u32) -> vec4<f32> {
    if (k >= params.inner) {
        return vec4<f32>();
    }
    let run = select(route / params.chosen, route, params.own_inputs == 1u);
    return vec4<f32>(input[(run * params.inner + k) / 4u]);
}

// The line of the section that makes an expert's column; one that is not in it is past row_count.
fn line_of(expert: u32, column: u32) -> u32 {
    // What lies before the section wraps to a large number.
    let line = expert * params.columns + column - params.first_row;
    return select(params.row_count, line, column < params.columns);
}

// A route's outputs lie together; with two parts their first halves, and behind those of all routes their second ones.
fn store(route: u32, column: u32, value: f32) {
    let run = params.columns / params.parts;
    let row = route / params.chosen;
    let part = row * params.parts + column / run;
    output[(part * params.chosen + route % params.chosen) * run + column % run] = Activation(value);
}
