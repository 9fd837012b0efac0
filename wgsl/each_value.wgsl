// Shared by the kernels that make one value at a time, [step.rows, params.columns] of them: four a thread, 256 apart.
// The including file declares params and fn make_value(index).
//!include step.wgsl

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = group_index(workgroup, workgroups) * 1024u + thread;
    for (var part = 0u; part < 4u; part++) {
        let index = first + part * 256u;
        if (index < step.rows * params.columns) {
            make_value(index);
        }
    }
}
