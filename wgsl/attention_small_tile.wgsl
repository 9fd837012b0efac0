// Shared by the cached attentions for few rows a sequence.
// A workgroup makes 8 rows of one head over 8 positions at a time; head_dim at most 256.
//!include step.wgsl

const ROWS = 8u;
const LANES = 8u;
const KEYS = 8u;
//!include cached_attention_tile.wgsl

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    attend(group_index(workgroup, workgroups), thread);
}
