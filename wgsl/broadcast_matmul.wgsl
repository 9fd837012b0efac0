// Shared by the broadcast matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k], K a multiple of 32.
// A workgroup of 8 lanes makes 32 rows x 32 columns, lane l the columns 4 l .. 4 l + 3, over steps of 32 along K.
// The including file declares `weight` (binding 3) and gives
//   columns_at(first, start): what a lane keeps of the step at `start` for the rows first .. first + 3 of the section
//   weights_of(columns, half): their weights in the step's first or second 16, one matrix for each four, a column a row
// The weight is bound in sections of whole rows: this dispatch makes columns [first_row, first_row + row_count).

struct Params {
    columns: u32,
    inner: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

// Past the end the last one is repeated: what comes of it is not stored.
fn weight_row(column: u32) -> u32 {
    return min(column, params.row_count - 1u);
}

fn input4(row: u32, k: u32) -> vec4<f32> {
    return input[(min(row, step.rows - 1u) * params.inner + k) / 4u];
}

fn input8(row: u32, k: u32) -> Eight {
    return Eight(
        input4(row, k),
        input4(row + 1u, k),
        input4(row + 2u, k),
        input4(row + 3u, k),
        input4(row + 4u, k),
        input4(row + 5u, k),
        input4(row + 6u, k),
        input4(row + 7u, k),
    );
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

fn store8(row: u32, column: u32, sums: Eight) {
    store4(row, column, sums[0]);
    store4(row + 1u, column, sums[1]);
    store4(row + 2u, column, sums[2]);
    store4(row + 3u, column, sums[3]);
    store4(row + 4u, column, sums[4]);
    store4(row + 5u, column, sums[5]);
    store4(row + 6u, column, sums[6]);
    store4(row + 7u, column, sums[7]);
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row_tiles = (step.rows + 31u) / 32u;
    let group = group_index(workgroup, workgroups);
    let row = group % row_tiles * 32u;
    let column = group / row_tiles * 32u + lane * 4u;
    let rows = min(step.rows - row, 32u);

    // A branch not taken costs as much as one taken, a loop without turns a single turn: so the choice is between
    // two loops. Few rows go by eights, for 24 more would be computed in vain.
    let few = rows <= 16u;
    for (var part = 0u; part < select(0u, rows, few); part += 8u) {
        var sums = Eight();
        for (var start = 0u; start < params.inner; start += 32u) {
            let own = input8(row + part, start + lane * 4u);
            let columns = columns_at(column, start);
            first_half(&sums, own, weights_of(columns, 0u));
            second_half(&sums, own, weights_of(columns, 1u));
        }
        store8(row + part, column, sums);
    }

    var sums0 = Eight();
    var sums1 = Eight();
    var sums2 = Eight();
    var sums3 = Eight();
    for (var start = 0u; start < select(params.inner, 0u, few); start += 32u) {
        let k = start + lane * 4u;
        let own0 = input8(row, k);
        let own1 = input8(row + 8u, k);
        let own2 = input8(row + 16u, k);
        let own3 = input8(row + 24u, k);
        let columns = columns_at(column, start);
        let first = weights_of(columns, 0u);
        first_half(&sums0, own0, first);
        first_half(&sums1, own1, first);
        first_half(&sums2, own2, first);
        first_half(&sums3, own3, first);
        let second = weights_of(columns, 1u);
        second_half(&sums0, own0, second);
        second_half(&sums1, own1, second);
        second_half(&sums2, own2, second);
        second_half(&sums3, own3, second);
    }
    if (!few) {
        store8(row, column, sums0);
        store8(row + 8u, column, sums1);
        store8(row + 16u, column, sums2);
        store8(row + 24u, column, sums3);
    }
}
