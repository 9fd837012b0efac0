// Shared by the broadcast matmuls: the entry for one row at a time.
// A workgroup of 8 lanes makes one row x 32 columns, lane l the columns 4 l .. 4 l + 3, over steps of 32 along K. Loads
// are what takes the time. Scales are applied to sums of 16 instead of weights.
//!include broadcast_inputs.wgsl

fn total(values: Four) -> f32 {
    return dot((values[0] + values[1]) + (values[2] + values[3]), vec4<f32>(1.0));
}

fn column_sum(column: u32, start: u32, inputs: Inputs, totals: vec2<f32>) -> f32 {
    let run = column_at(column, start);
    let first = scale_of(run, 0u);
    let second = scale_of(run, 1u);
    return product(inputs.first, quants_of(run, 0u)) * first.x - totals.x * first.y
        + (product(inputs.second, quants_of(run, 1u)) * second.x - totals.y * second.y);
}

@compute @workgroup_size(8)
fn main_one(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles = (params.row_count + 31u) / 32u;
    let group = group_index(workgroup, workgroups);
    let row = group / tiles;
    let column = group % tiles * 32u + lane * 4u;
    var sums = vec4<f32>();
    for (var start = 0u; start < bound(params.inner); start += 32u) {
        let inputs = inputs_at(row, start, lane);
        let totals = vec2<f32>(total(inputs.first), total(inputs.second));
        sums.x += column_sum(column, start, inputs, totals);
        sums.y += column_sum(column + 1u, start, inputs, totals);
        sums.z += column_sum(column + 2u, start, inputs, totals);
        sums.w += column_sum(column + 3u, start, inputs, totals);
    }
    store4(row, column, sums);
}
