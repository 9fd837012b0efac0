// Shared by the plain matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k] (tile_products.wgsl).
// The including file gives `weight4(n, k)`: weights k .. k+3 (k a multiple of 4) of row n of the bound section, 0 past K.
// The including file says what type Activation is, of input and output; products and sums are f32.
// The weight is bound in sections of whole rows: this dispatch makes columns [first_row, first_row + row_count).
//!include tile_products.wgsl

struct Params {
    columns: u32,
    inner: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<Activation>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<Activation>;

fn input4(row: u32, k: u32) -> vec4<f32> {
    var values = vec4<f32>();
    if (row < step.rows) {
        let base = row * params.inner + k;
        if (k < params.inner) { values.x = f32(input[base]); }
        if (k + 1u < params.inner) { values.y = f32(input[base + 1u]); }
        if (k + 2u < params.inner) { values.z = f32(input[base + 2u]); }
        if (k + 3u < params.inner) { values.w = f32(input[base + 3u]); }
    }
    return values;
}

fn store(row: u32, column: u32, value: f32) {
    if (row < step.rows && column < params.row_count) {
        output[row * params.columns + params.first_row + column] = Activation(value);
    }
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = tile_at(group_index(workgroup, workgroups));
    if (first.y >= params.row_count) {
        return;
    }
    products(thread, first.x, first.y, params.row_count, params.inner);
}
