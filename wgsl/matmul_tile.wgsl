// Shared by the plain matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k], any R, N and K.
// A workgroup makes 64 rows x 64 columns over steps of 16 along K; each of its 256 threads makes 4 x 4 of them, 16 apart,
// so that neighbours store to neighbouring places.
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

// [row or column][k / 4], padded by one against bank conflicts.
const PITCH = 5u;
var<workgroup> input_tile: array<vec4<f32>, TILE * PITCH>;
var<workgroup> weight_tile: array<vec4<f32>, TILE * PITCH>;

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

fn store(row: u32, column: u32, value: f32) {
    if (row < step.rows && column < params.row_count) {
        output[row * params.columns + params.first_row + column] = value;
    }
}

fn store4(row: u32, column: u32, values: vec4<f32>) {
    store(row, column, values.x);
    store(row, column + 16u, values.y);
    store(row, column + 32u, values.z);
    store(row, column + 48u, values.w);
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
    let quarter = thread % 4u;
    // Computing: a thread owns rows y, y + 16, y + 32, y + 48 and columns x, x + 16, x + 32, x + 48 of the tile.
    let x = thread % 16u;
    let y = thread / 16u;

    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    for (var start = 0u; start < params.inner; start += DEPTH) {
        let k = start + quarter * 4u;
        var weights = vec4<f32>();
        if (first_column + line < params.row_count && k < params.inner) {
            weights = weight4(first_column + line, k);
        }
        input_tile[line * PITCH + quarter] = input4(first_row + line, k);
        weight_tile[line * PITCH + quarter] = weights;
        workgroupBarrier();
        for (var part = 0u; part < 4u; part++) {
            let columns = mat4x4<f32>(
                weight_tile[x * PITCH + part],
                weight_tile[(x + 16u) * PITCH + part],
                weight_tile[(x + 32u) * PITCH + part],
                weight_tile[(x + 48u) * PITCH + part],
            );
            sum0 += input_tile[y * PITCH + part] * columns;
            sum1 += input_tile[(y + 16u) * PITCH + part] * columns;
            sum2 += input_tile[(y + 32u) * PITCH + part] * columns;
            sum3 += input_tile[(y + 48u) * PITCH + part] * columns;
        }
        workgroupBarrier();
    }

    let row = first_row + y;
    let column = first_column + x;
    store4(row, column, sum0);
    store4(row + 16u, column, sum1);
    store4(row + 32u, column, sum2);
    store4(row + 48u, column, sum3);
}
