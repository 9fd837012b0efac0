// Shared by the kernels for few rows: 256 threads, of which `lanes` neighbouring ones (a power of two) make a column.

const THREADS = 256u;
var<workgroup> sums: array<f32, THREADS>;

// The sum over the lanes as a tree, so that its order is fixed; the first lane of each column gets it.
fn column_sum(thread: u32, lanes: u32, value: f32) -> f32 {
    sums[thread] = value;
    workgroupBarrier();
    for (var half = lanes / 2u; half > 0u; half /= 2u) {
        if (thread % lanes < half) {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    return sums[thread];
}
