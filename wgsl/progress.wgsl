// progress: how each slot's canvas stands: the mean entropy of its rows, how many of them have another likeliest token than
// the step before, how many have a NaN for an entropy.
// rows u32 [T, 4] (second column: position); slots u32 [S, 4] (first row, row count, _, place); picks u32 [T, 4] (second
// word: the likeliest token, third: bits of the entropy); canvas, a state, u32 [places * capacity, 4] (third word: the likeliest
// token of the step before); output u32 [S, 4]: bits of the mean, two counts, 0. One workgroup per slot.
//!include step.wgsl
//!include state_line.wgsl
//!include workgroup_sum.wgsl

struct Params {
    capacity: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> picks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> canvas: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<u32>>;

const THREADS = 64u;

const QUIET_NAN = 0x7fc00000u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let slot = group_index(workgroup, workgroups);
    if (slot >= step.sequences) {
        return;
    }
    let count = slots[slot].y;
    var entropy = 0.0;
    var changed = 0.0; // counts are exact in f32: a canvas has fewer than 2^24 positions
    var broken = 0.0;
    for (var at = thread; at < count; at += THREADS) {
        let row = slots[slot].x + at;
        entropy += bitcast<f32>(picks[row].z);
        changed += f32(picks[row].y != canvas[state_line(rows[row])].z);
        // As a whole number: WGSL lets a device assume that there is no NaN.
        broken += f32((picks[row].z & 0x7fffffffu) > 0x7f800000u);
    }
    let mean = workgroup_sum(thread, entropy) / f32(count);
    workgroupBarrier();
    let others = workgroup_sum(thread, changed);
    workgroupBarrier();
    let bad = workgroup_sum(thread, broken);
    if (thread == 0u) {
        let bits = select(bitcast<u32>(mean), QUIET_NAN, bad > 0.0);
        output[slot] = vec4<u32>(bits, u32(others), u32(bad), 0u);
    }
}
