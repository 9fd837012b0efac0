// blend: soft[t] = the weighted rows of a tile's tokens, added to what the tiles before gave.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); sampling u32 [S, 16];
// input f32 [T, inner], logits of the tokens from `first` on; tally, a state, u32 [places * capacity, tally_columns] by fours,
// whose first two words are the bits of the greatest logit before this tile and with it; weight f16 or f32: those tokens'
// rows, [inner, columns]; output, a state, f32 [places * capacity, columns].
// A token weighs exp((logit - greatest) / temperature): as the greatest grows, what was there is made smaller.
// The tokens' rows are bound in sections: a dispatch adds those of [first_row, first_row + row_count).
//!include step.wgsl
//!include state_line.wgsl
//!include below.wgsl
//!include dense_value.wgsl
//!include tile_products.wgsl

struct Params {
    columns: u32,
    inner: u32,
    first: u32,
    capacity: u32,
    tally_columns: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> input: array<u32>;
@group(0) @binding(6) var<storage, read> tally: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> weight: array<u32>;
@group(0) @binding(8) var<storage, read_write> output: array<f32>;

// Of the row whose inputs the thread asks for.
var<private> greatest: u32;
var<private> temperature: f32;

fn temperature_of(row: u32) -> f32 {
    return bitcast<f32>(sampling[rows[row].z * 4u].x);
}

// The orders of the greatest logit before this tile and with it.
fn greatest_of(line: u32) -> vec2<u32> {
    let bits = tally[line * (params.tally_columns / 4u)];
    return vec2<u32>(order(bits.x), order(bits.y));
}

fn input4(row: u32, k: u32) -> vec4<f32> {
    var values = vec4<f32>();
    if (row < step.rows) {
        let base = row * params.inner + params.first_row + k;
        for (var i = 0u; i < 4u; i++) {
            if (k + i < params.row_count) {
                values[i] = exp(below(order(input[base + i]), greatest, temperature));
            }
        }
    }
    return values;
}

fn weight4(column: u32, k: u32) -> vec4<f32> {
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (k + i < params.row_count) {
            values[i] = dense_value((k + i) * params.columns + column);
        }
    }
    return values;
}

fn store(row: u32, column: u32, value: f32) {
    if (row >= step.rows || column >= params.columns) {
        return;
    }
    let line = state_line(rows[row]);
    let at = line * params.columns + column;
    if (params.first_row > 0u) {
        output[at] += value;
    } else if (params.first > 0u) {
        let orders = greatest_of(line);
        output[at] = value + output[at] * exp(below(orders.x, orders.y, temperature_of(row)));
    } else {
        output[at] = value;
    }
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = tile_at(group_index(workgroup, workgroups));
    if (first.y >= params.columns) {
        return;
    }
    let row = min(first.x + thread / 4u, step.rows - 1u);
    greatest = greatest_of(state_line(rows[row])).y;
    temperature = temperature_of(row);
    products(thread, first.x, first.y, params.columns, params.row_count);
}
