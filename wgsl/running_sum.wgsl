// Shared by kernels with workgroups of THREADS threads, a power of two: the sums of the threads' values up to each.

var<workgroup> running: array<f32, THREADS>;

// The sum of the values of the threads up to this one; `running` then holds those of all. Every thread has to call it.
fn running_sum(thread: u32, own: f32) -> f32 {
    workgroupBarrier();
    running[thread] = own;
    var sum = own;
    for (var reach = 1u; reach < THREADS; reach *= 2u) {
        workgroupBarrier();
        sum += select(0.0, running[max(thread, reach) - reach], thread >= reach);
        workgroupBarrier();
        running[thread] = sum;
    }
    workgroupBarrier();
    return sum;
}
