// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], for few rows (decoding: one).
// input f32 [R, K]; weight f16 or f32 [N, K], K a multiple of 4; output f32 [R, N]. Products and sums in f32.
// main_vec4: 64 threads a column, 4 columns a workgroup. main_multicol: MULTICOL_THREADS_PER_COL threads a column,
// MULTICOL_COLS_PER_WG columns a workgroup, at most 256 threads together, for weights of very many rows. Lanes add up in
// workgroup memory: subgroups differ in size, and some GPU adapters have none.
//!include step.wgsl
//!include gemv.wgsl
//!include dense_four.wgsl

override MULTICOL_COLS_PER_WG: u32 = 32;
override MULTICOL_THREADS_PER_COL: u32 = 8;

@group(0) @binding(3) var<storage, read> weight: array<vec2<u32>>;

fn partial_sum(row: u32, column: u32, lane: u32, lanes: u32) -> f32 {
    let fours = params.inner / 4u;
    var sum = 0.0;
    for (var i = lane; i < fours; i += lanes) {
        sum += dot(input[row * fours + i], weight_four(column * fours + i));
    }
    return sum;
}

@compute @workgroup_size(256)
fn main_vec4(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    gemv(group_index(workgroup, workgroups), thread, 64u, 4u);
}

@compute @workgroup_size(256)
fn main_multicol(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    gemv(group_index(workgroup, workgroups), thread, MULTICOL_THREADS_PER_COL, MULTICOL_COLS_PER_WG);
}
