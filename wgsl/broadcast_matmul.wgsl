// Shared by the broadcast matmuls: output[r, n] = sum over k of input[r, k] * weight[n, k], K a multiple of 32. The entry
// for several rows.
//!include broadcast_columns.wgsl
//!include eight_rows.wgsl

// Of four neighbouring columns.
struct Columns {
    a: Run,
    b: Run,
    c: Run,
    d: Run,
}

fn columns_at(first: u32, start: u32) -> Columns {
    return Columns(
        column_at(first, start),
        column_at(first + 1u, start),
        column_at(first + 2u, start),
        column_at(first + 3u, start),
    );
}

fn scaled(run: Run, half: u32) -> Four {
    let quants = quants_of(run, half);
    let scale = scale_of(run, half);
    return Four(
        quants[0] * scale.x - scale.y,
        quants[1] * scale.x - scale.y,
        quants[2] * scale.x - scale.y,
        quants[3] * scale.x - scale.y,
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

// The step's inputs of a row, which is another one for each lane.
fn inputs8(row: u32, start: u32) -> Eight {
    return Eight(
        input4(row, start),
        input4(row, start + 4u),
        input4(row, start + 8u),
        input4(row, start + 12u),
        input4(row, start + 16u),
        input4(row, start + 20u),
        input4(row, start + 24u),
        input4(row, start + 28u),
    );
}

// sums[i] += (own of lane i) * weights, for four inner indices.
fn add_four(sums: ptr<function, Eight>, own: vec4<f32>, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(own, 0u) * weights;
    (*sums)[1] += subgroupBroadcast(own, 1u) * weights;
    (*sums)[2] += subgroupBroadcast(own, 2u) * weights;
    (*sums)[3] += subgroupBroadcast(own, 3u) * weights;
    (*sums)[4] += subgroupBroadcast(own, 4u) * weights;
    (*sums)[5] += subgroupBroadcast(own, 5u) * weights;
    (*sums)[6] += subgroupBroadcast(own, 6u) * weights;
    (*sums)[7] += subgroupBroadcast(own, 7u) * weights;
}

fn add_first(sums: ptr<function, Eight>, own: Eight, weights: Sixteen) {
    add_four(sums, own[0], weights[0]);
    add_four(sums, own[1], weights[1]);
    add_four(sums, own[2], weights[2]);
    add_four(sums, own[3], weights[3]);
}

fn add_second(sums: ptr<function, Eight>, own: Eight, weights: Sixteen) {
    add_four(sums, own[4], weights[0]);
    add_four(sums, own[5], weights[1]);
    add_four(sums, own[6], weights[2]);
    add_four(sums, own[7], weights[3]);
}

// 8 rows x 64 columns a workgroup, lane l the columns 8 l .. 8 l + 7, over steps of 32 along K. More rows would load the
// weights less often, and no faster: the sums would no longer fit what lies nearest to the processor.
@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row_tiles = (step.rows + 7u) / 8u;
    let group = group_index(workgroup, workgroups);
    let row = group % row_tiles * 8u;
    let column = group / row_tiles * 64u + lane * 8u;
    var sums0 = Eight();
    var sums1 = Eight();
    for (var start = 0u; start < bound(params.inner); start += 32u) {
        let own = inputs8(row + lane, start);
        let near = columns_at(column, start);
        add_first(&sums0, own, weights_of(near, 0u));
        add_second(&sums0, own, weights_of(near, 1u));
        let far = columns_at(column + 4u, start);
        add_first(&sums1, own, weights_of(far, 0u));
        add_second(&sums1, own, weights_of(far, 1u));
    }
    store8(row, column, sums0);
    store8(row, column + 4u, sums1);
}
