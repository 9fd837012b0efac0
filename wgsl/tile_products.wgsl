// Shared by the tiled products: output[r, n] = sum over k of input[r, k] * weight[n, k], any R, N and K.
// A workgroup makes 64 rows x 64 columns over steps of 16 along K; each of its 256 threads makes 4 x 4 of them, 16 apart,
// so that neighbours store to neighbouring places.
// The including file gives, k being a multiple of 4:
//   input4(row, k)             inputs k .. k+3 of a row, 0 past R and K
//   weight4(column, k)         weights k .. k+3 of a column, 0 past K
//   store(row, column, value)  which drops what lies past R and N
// A thread asks for the inputs of one row only: the tile's first and thread / 4.

const TILE = 64u;
const DEPTH = 16u;

// [row or column][k / 4], padded by one against bank conflicts.
const PITCH = 5u;
var<workgroup> input_tile: array<vec4<f32>, TILE * PITCH>;
var<workgroup> weight_tile: array<vec4<f32>, TILE * PITCH>;

fn store4(row: u32, column: u32, values: vec4<f32>) {
    store(row, column, values.x);
    store(row, column + 16u, values.y);
    store(row, column + 32u, values.z);
    store(row, column + 48u, values.w);
}

// The first row and column of a workgroup's tile.
fn tile_at(group: u32) -> vec2<u32> {
    let row_tiles = (step.rows + TILE - 1u) / TILE;
    return vec2<u32>(group % row_tiles, group / row_tiles) * TILE;
}

// The tile that begins at this row and column. column_count: N. inner: K. Every thread has to call it.
fn products(thread: u32, first_row: u32, first_column: u32, column_count: u32, inner: u32) {
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
    for (var start = 0u; start < inner; start += DEPTH) {
        let k = start + quarter * 4u;
        var weights = vec4<f32>();
        if (first_column + line < column_count && k < inner) {
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
