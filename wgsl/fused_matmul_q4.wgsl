// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], for few rows, the weight staying packed on the device.
// input f32 [R, K]; weight Q4_K [N, K], K a multiple of 32; output f32 [R, N]. Dequantised, multiplied and summed in f32.
//!include step.wgsl
//!include q4_k_chunk.wgsl
//!include packed_gemv.wgsl

@compute @workgroup_size(256)
fn main_gemv(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    gemv(group_index(workgroup, workgroups), thread, LANES, THREADS / LANES);
}
