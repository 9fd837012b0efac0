// Shared by the cached attentions for prompts, with heads of up to 512 values.
// A workgroup makes 8 rows of one head over 4 positions at a time; head_dim at most 512.
//!include step.wgsl

const ROWS = 8u;
const LANES = 16u;
const KEYS = 4u;
//!include cached_attention_tile.wgsl

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    attend(group_index(workgroup, workgroups), thread);
}
