// Shared by the broadcast matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k], for many rows.
// A workgroup of 8 lanes makes 32 rows x 32 columns, lane l the columns 4 l .. 4 l + 3, over steps of 32 along K.
//!include broadcast_columns.wgsl

// Of four neighbouring columns.
struct Columns {
    a: Run,
    b: Run,
    c: Run,
    d: Run,
}

fn columns_at(first: u32, start: u32) -> Columns {
    return Columns(
        column_at(first, start), column_at(first + 1u, start), column_at(first + 2u, start), column_at(first + 3u, start)
    );
}

fn scaled(run: Run, half: u32) -> Four {
    let quants = quants_of(run, half);
    let scale = scale_of(run, half);
    return Four(
        quants[0] * scale.x - scale.y, quants[1] * scale.x - scale.y, quants[2] * scale.x - scale.y, quants[3] * scale.x - scale.y
    );
}

fn weights_of(columns: Columns, half: u32) -> Sixteen {
    let a = scaled(columns.a, half);
    let b = scaled(columns.b, half);
    let c = scaled(columns.c, half);
    let d = scaled(columns.d, half);
    return Sixteen(
        mat4x4<f32>(a[0], b[0], c[0], d[0]), mat4x4<f32>(a[1], b[1], c[1], d[1]),
        mat4x4<f32>(a[2], b[2], c[2], d[2]), mat4x4<f32>(a[3], b[3], c[3], d[3]),
    );
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
    let inner = bound(params.inner);
    for (var part = 0u; part < select(0u, rows, few); part += 8u) {
        var sums = Eight();
        for (var start = 0u; start < inner; start += 32u) {
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
    for (var start = 0u; start < select(inner, 0u, few); start += 32u) {
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
