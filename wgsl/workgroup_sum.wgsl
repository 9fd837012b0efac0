// Shared by kernels that say how many THREADS, a power of two, a workgroup has: a sum over them, as a tree, so that its
// order is fixed.

var<workgroup> sums: array<f32, THREADS>;

// The sum of all threads' values, for each of them, who all call it; a barrier has to stand before a second call.
fn workgroup_sum(thread: u32, own: f32) -> f32 {
    sums[thread] = own;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}
