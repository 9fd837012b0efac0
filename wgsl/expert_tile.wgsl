// Shared by the expert matmuls: the entry for several rows. A workgroup makes 64 columns of one expert for those of 1,024
// rows that want it: it lists their routes, then takes them 16 at a time over steps of 16 along K. Each of its 64 threads
// makes 4 x 4 of the tile, rows 4 apart, columns 16 apart, so that neighbours store to neighbouring places. A row names
// an expert at most once; in what order the routes are listed changes no sum.

const TILE_ROWS = 16u;
const TILE_COLUMNS = 64u;
const TILE_DEPTH = 16u;
const BLOCK_ROWS = 1024u;

var<workgroup> listed: atomic<u32>;
var<workgroup> listed_in_all: u32;
var<workgroup> list: array<u32, BLOCK_ROWS>;

// [row or column][k / 4], padded by one against bank conflicts.
const PITCH = 5u;
var<workgroup> input_tile: array<vec4<f32>, TILE_ROWS * PITCH>;
var<workgroup> weight_tile: array<vec4<f32>, TILE_COLUMNS * PITCH>;

// How many routes of a block of rows name the expert; `list` has them.
fn list_routes(thread: u32, first: u32, count: u32, expert: u32) -> u32 {
    // Mesa's software device leaves in workgroup memory what the last workgroup had there.
    if (thread == 0u) {
        atomicStore(&listed, 0u);
    }
    workgroupBarrier();
    for (var index = thread; index < count; index += TILE_COLUMNS) {
        if (routes[first + index].x == expert) {
            list[atomicAdd(&listed, 1u)] = first + index;
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        listed_in_all = atomicLoad(&listed);
    }
    return workgroupUniformLoad(&listed_in_all);
}

// Of four inner indices: the weights of four columns.
fn weights_at(x: u32, four: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        weight_tile[x * PITCH + four],
        weight_tile[(x + 16u) * PITCH + four],
        weight_tile[(x + 32u) * PITCH + four],
        weight_tile[(x + 48u) * PITCH + four],
    );
}

fn add_four(sums: ptr<function, mat4x4<f32>>, x: u32, y: u32, four: u32) {
    let columns = weights_at(x, four);
    (*sums)[0] += input_tile[y * PITCH + four] * columns;
    (*sums)[1] += input_tile[(y + 4u) * PITCH + four] * columns;
    (*sums)[2] += input_tile[(y + 8u) * PITCH + four] * columns;
    (*sums)[3] += input_tile[(y + 12u) * PITCH + four] * columns;
}

fn store_column(route: u32, expert: u32, column: u32, value: f32) {
    if (line_of(expert, column) < params.row_count) {
        store(route, column, value);
    }
}

// Four columns, 16 apart, of a row of the list.
fn store4(row: u32, count: u32, expert: u32, column: u32, values: vec4<f32>) {
    if (row < count) {
        store_column(list[row], expert, column, values.x);
        store_column(list[row], expert, column + 16u, values.y);
        store_column(list[row], expert, column + 32u, values.z);
        store_column(list[row], expert, column + 48u, values.w);
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (step.rows + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    let tiles = (params.columns + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let group = group_index(workgroup, workgroups);
    let first_row = group % blocks * BLOCK_ROWS;
    let tile = group / blocks;
    let expert = params.first_row / params.columns + tile / tiles;
    let first_column = tile % tiles * TILE_COLUMNS;
    let first_line = expert * params.columns + first_column;
    if (first_line >= params.first_row + params.row_count || first_line + TILE_COLUMNS <= params.first_row) {
        return;
    }
    let rows = min(step.rows - first_row, BLOCK_ROWS);
    let count = list_routes(thread, first_row * params.chosen, rows * params.chosen, expert);

    // Loading: a thread brings sixteen values along K of one column, four of one row. Past the end the last route is
    // repeated, and what is no line of the section is the first: what comes of them is not stored.
    let own_line = line_of(expert, first_column + thread);
    let line = select(0u, own_line, own_line < params.row_count);
    let quarter = thread % 4u;
    // Computing: a thread owns rows y, y + 4, y + 8, y + 12 and columns x, x + 16, x + 32, x + 48 of the tile.
    let x = thread % 16u;
    let y = thread / 16u;
    for (var first = 0u; first < count; first += TILE_ROWS) {
        let route = list[min(first + thread / 4u, count - 1u)];
        var sums = mat4x4<f32>();
        for (var start = 0u; start < params.inner; start += TILE_DEPTH) {
            let weights = sixteen(line, start);
            weight_tile[thread * PITCH] = weights[0];
            weight_tile[thread * PITCH + 1u] = weights[1];
            weight_tile[thread * PITCH + 2u] = weights[2];
            weight_tile[thread * PITCH + 3u] = weights[3];
            input_tile[thread / 4u * PITCH + quarter] = input4(route, start + quarter * 4u);
            workgroupBarrier();
            add_four(&sums, x, y, 0u);
            add_four(&sums, x, y, 1u);
            add_four(&sums, x, y, 2u);
            add_four(&sums, x, y, 3u);
            workgroupBarrier();
        }
        let row = first + y;
        let column = first_column + x;
        store4(row, count, expert, column, sums[0]);
        store4(row + 4u, count, expert, column, sums[1]);
        store4(row + 8u, count, expert, column, sums[2]);
        store4(row + 12u, count, expert, column, sums[3]);
    }
}
