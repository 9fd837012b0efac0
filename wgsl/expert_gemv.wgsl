// Shared by the expert matmuls: the entry for one row at a time. 16 lanes make a column of a route, each taking every 16th
// run of 16 values along K; a workgroup makes 16 columns.
//!include column_sum.wgsl

const LANES = 16u;

@compute @workgroup_size(256)
fn main_one(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let columns = THREADS / LANES;
    let tiles = (params.columns + columns - 1u) / columns;
    let group = group_index(workgroup, workgroups);
    let route = group / tiles;
    if (route >= step.rows * params.chosen) {
        return;
    }
    let column = group % tiles * columns + thread / LANES;
    let line = line_of(routes[route].x, column);
    var sum = 0.0;
    if (line < params.row_count) {
        for (var k = thread % LANES * 16u; k < params.inner; k += LANES * 16u) {
            let weights = sixteen(line, k);
            sum += dot(input4(route, k), weights[0]) + dot(input4(route, k + 4u), weights[1]);
            sum += dot(input4(route, k + 8u), weights[2]) + dot(input4(route, k + 12u), weights[3]);
        }
    }
    sum = column_sum(thread, LANES, sum);
    if (thread % LANES == 0u && line < params.row_count) {
        store(route, column, sum);
    }
}
