// Shared by the kernels for few rows: output[r, n] = sum over k of input[r, k] * weight[n, k], each row by itself, all sums
// in f32. A workgroup makes `columns` columns, `lanes` neighbouring threads (a power of two) each; the including file
// gives a thread's part of the sum as
//   partial_sum(row, column, lane, lanes)   column counted from the bound section's first
// The weight is bound in sections of whole rows: this dispatch makes columns [first_row, first_row + row_count).
//!include column_sum.wgsl

struct Params {
    columns: u32,
    inner: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

fn gemv(group: u32, thread: u32, lanes: u32, columns: u32) {
    let tiles = (params.row_count + columns - 1u) / columns;
    let row = group / tiles;
    let column = group % tiles * columns + thread / lanes;
    // Past the end the last one is repeated: what comes of it is not stored.
    let part = partial_sum(
        min(row, step.rows - 1u), min(column, params.row_count - 1u), thread % lanes, lanes
    );
    let sum = column_sum(thread, lanes, part);
    if (thread % lanes == 0u && thread / lanes < columns && row < step.rows && column < params.row_count) {
        output[row * params.columns + params.first_row + column] = sum;
    }
}
