// Shared by the kernels that do little for each of step.rows rows: a thread a row. The including file declares
// fn take_row(row).
//!include step.wgsl

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group_index(workgroup, workgroups) * 64u + thread;
    if (row < step.rows) {
        take_row(row);
    }
}
