// cached_attention: online softmax over the keys and values of a state, f16 (or f32), for decoding: one row a sequence.
// A workgroup of 256 threads makes one row of one head; head_dim at most 512.
//!include activation_f32.wgsl
//!include step.wgsl

const THREADS = 256u;
//!include cached_attention_row.wgsl

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    attend(group_index(workgroup, workgroups), thread);
}
