// sample: output[s] = the id of the greatest of input[s, 0 .. columns - 1], the lowest of equal ones.
// input f32 [S, columns], read as bits; output u32 [S, 1]: NO_TOKEN where all are -inf, BROKEN where one is NaN.
// One workgroup per slot; comparisons of whole numbers only, so that the answer is exact.
//!include step.wgsl
//!include order.wgsl
//!include strongest.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<u32>;

@compute @workgroup_size(256)
fn sample_single_pass(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let slot = group_index(workgroup, workgroups);
    if (slot >= step.rows) {
        return;
    }
    let best = strongest(thread, strongest_own(thread, slot * params.columns));
    if (thread == 0u) {
        output[slot] = token_of(best);
    }
}
