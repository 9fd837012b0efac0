// Shared by every kernel: the uniform of the step, and the index of a workgroup.
// step.rows counts the rows of the op's first input: T, or S behind the pooling. step.sequences is S.
// A grid above 65,535 workgroups is split over y.

struct Step {
    rows: u32,
    sequences: u32,
}

@group(0) @binding(0) var<uniform> step: Step;

fn group_index(workgroup: vec3<u32>, workgroups: vec3<u32>) -> u32 {
    return workgroup.x + workgroup.y * workgroups.x;
}
