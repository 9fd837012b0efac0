// cached_attention: online softmax over the keys and values of a state, f16 (or f32), for any number of rows.
// A workgroup of 128 threads streams all that one row of one head sees; head_dim at most 512.
//!include activation_f32.wgsl
//!include step.wgsl

const THREADS = 128u;
//!include cached_attention_row.wgsl

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    attend(group_index(workgroup, workgroups), thread);
}
