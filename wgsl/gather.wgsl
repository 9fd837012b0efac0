// gather: output[t, c] = weight[id of row t, c] * scale
// rows u32 [T, 4]; weight, the table, f16 or f32 [V, columns]; output f32 [T, columns]. One multiplication, no other rounding.
// A table above the binding limit is bound in sections of whole rows, one dispatch each: a dispatch writes the
// rows whose id lies in [first_row, first_row + row_count). Ids outside the table are refused by the caller.
//!include each_value.wgsl
//!include dense_value.wgsl

struct Params {
    scale: f32,
    columns: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

fn make_value(index: u32) {
    let id = rows[index / params.columns].x;
    // A smaller id wraps to a large number, so one comparison tests both ends.
    let line = id - params.first_row;
    if (line < params.row_count) {
        output[index] = dense_value(line * params.columns + index % params.columns) * params.scale;
    }
}
