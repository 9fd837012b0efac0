// Shared by the broadcast matmuls: their bindings, and the weights of a column over a step of 32 along K, a multiple of 32.
// The including file declares `weight` (binding 3) and gives, value = scale * q - offset,
//   run_at(row, start): what is to be known of the step at `start` in a row of the section, loaded
//   quants_of(run, half): q in the step's first or second 16
//   scale_of(run, half): scale and offset there
// The weight is bound in sections of whole rows: a dispatch makes columns [first_row, first_row + row_count).
//!include broadcast.wgsl
//!include long_values.wgsl

struct Params {
    columns: u32,
    inner: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<vec2<u64>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

alias Four = array<vec4<f32>, 4>;

// Past the end the last row is repeated: what comes of it is not stored.
fn column_at(column: u32, start: u32) -> Run {
    return run_at(min(column, params.row_count - 1u), start);
}

fn input4(row: u32, k: u32) -> vec4<f32> {
    return four_f32(input[(min(row, step.rows - 1u) * params.inner + k) / 4u]);
}

fn store4(row: u32, column: u32, values: vec4<f32>) {
    if (row < step.rows) {
        let base = row * params.columns + params.first_row + column;
        if (column < params.row_count) { output[base] = values.x; }
        if (column + 1u < params.row_count) { output[base + 1u] = values.y; }
        if (column + 2u < params.row_count) { output[base + 2u] = values.z; }
        if (column + 3u < params.row_count) { output[base + 3u] = values.w; }
    }
}
