// Shared by the plain matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k], any R, N and K.
// A workgroup makes 64 rows x 64 columns, each of its 256 threads 4 x 4 of them, over steps of 16 along K.
// The including file gives `weight4(n, k)`: weights k .. k+3 (k a multiple of 4) of row n of the bound section, 0 past K.
// The weight is bound in sections of whole rows: this dispatch makes columns [first_row, first_row + row_count).

struct Params {
    columns: u32,
    inner: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

const TILE = 64u;
const DEPTH = 16u;

// [k][row or column / 4]: a thread's four neighbours are one vec4. Padded by one against bank conflicts.
const PITCH = 17u;
var<workgroup> input_tile: array<vec4<f32>, DEPTH * PITCH>;
var<workgroup> weight_tile: array<vec4<f32>, DEPTH * PITCH>;

fn input4(row: u32, k: u32) -> vec4<f32> {
    var values = vec4<f32>();
    if (row < step.rows) {
        let base = row * params.inner + k;
        if (k < params.inner) { values.x = input[base]; }
        if (k + 1u < params.inner) { values.y = input[base + 1u]; }
        if (k + 2u < params.inner) { values.z = input[base + 2u]; }
        if (k + 3u < params.inner) { values.w = input[base + 3u]; }
    }
    return values;
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

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row_tiles = (step.rows + TILE - 1u) / TILE;
    let group = group_index(workgroup, workgroups);
    let first_row = group % row_tiles * TILE;
    let first_column = group / row_tiles * TILE;
    if (first_column >= params.row_count) {
        return;
    }
    // Loading: a thread brings four values along K of one row and of one column.
    let line = thread / 4u;
    let depth = thread % 4u * 4u;
    // Computing: a thread owns rows 4y .. 4y+3 and columns 4x .. 4x+3 of the tile.
    let x = thread % 16u;
    let y = thread / 16u;

    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    for (var start = 0u; start < params.inner; start += DEPTH) {
        let a = input4(first_row + line, start + depth);
        var b = vec4<f32>();
        if (first_column + line < params.row_count && start + depth < params.inner) {
            b = weight4(first_column + line, start + depth);
        }
        for (var i = 0u; i < 4u; i++) {
            let at = (depth + i) * PITCH + line / 4u;
            input_tile[at][line % 4u] = a[i];
            weight_tile[at][line % 4u] = b[i];
        }
        workgroupBarrier();
        for (var k = 0u; k < DEPTH; k++) {
            let columns = weight_tile[k * PITCH + x];
            let rows = input_tile[k * PITCH + y];
            sum0 += rows.x * columns;
            sum1 += rows.y * columns;
            sum2 += rows.z * columns;
            sum3 += rows.w * columns;
        }
        workgroupBarrier();
    }

    let row = first_row + y * 4u;
    let column = first_column + x * 4u;
    store4(row, column, sum0);
    store4(row + 1u, column, sum1);
    store4(row + 2u, column, sum2);
    store4(row + 3u, column, sum3);
}
