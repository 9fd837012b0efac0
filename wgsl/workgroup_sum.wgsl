// Shared by kernels with workgroups of 64 threads: a sum over them, as a tree, so that its order is fixed.

const THREADS = 64u;
var<workgroup> sums: array<f32, THREADS>;

// The sum of all threads' values, for each of them, who all call it; a barrier has to stand before a second call.
fn workgroup_sum(thread: u32, value: f32) -> f32 {
    sums[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}
