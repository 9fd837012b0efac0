// Shared by the broadcast attention among a step's rows. A lane holds 4 values along the inner axis of each row; every lane
// multiplies them with weights of its own 4 columns.
//!include broadcast.wgsl

// sums[i] += (rows[i] of lane 0) * weights, for the inner indices 0 .. 3 of a step of 32.
fn lane_0(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 0u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 0u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 0u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 0u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 0u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 0u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 0u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 0u) * weights;
}

fn lane_1(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 1u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 1u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 1u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 1u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 1u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 1u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 1u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 1u) * weights;
}

fn lane_2(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 2u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 2u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 2u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 2u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 2u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 2u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 2u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 2u) * weights;
}

fn lane_3(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 3u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 3u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 3u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 3u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 3u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 3u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 3u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 3u) * weights;
}

fn lane_4(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 4u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 4u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 4u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 4u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 4u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 4u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 4u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 4u) * weights;
}

fn lane_5(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 5u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 5u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 5u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 5u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 5u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 5u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 5u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 5u) * weights;
}

fn lane_6(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 6u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 6u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 6u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 6u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 6u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 6u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 6u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 6u) * weights;
}

fn lane_7(sums: ptr<function, Eight>, rows: Eight, weights: mat4x4<f32>) {
    (*sums)[0] += subgroupBroadcast(rows[0], 7u) * weights;
    (*sums)[1] += subgroupBroadcast(rows[1], 7u) * weights;
    (*sums)[2] += subgroupBroadcast(rows[2], 7u) * weights;
    (*sums)[3] += subgroupBroadcast(rows[3], 7u) * weights;
    (*sums)[4] += subgroupBroadcast(rows[4], 7u) * weights;
    (*sums)[5] += subgroupBroadcast(rows[5], 7u) * weights;
    (*sums)[6] += subgroupBroadcast(rows[6], 7u) * weights;
    (*sums)[7] += subgroupBroadcast(rows[7], 7u) * weights;
}

fn first_half(sums: ptr<function, Eight>, rows: Eight, weights: Sixteen) {
    lane_0(sums, rows, weights[0]);
    lane_1(sums, rows, weights[1]);
    lane_2(sums, rows, weights[2]);
    lane_3(sums, rows, weights[3]);
}

fn second_half(sums: ptr<function, Eight>, rows: Eight, weights: Sixteen) {
    lane_4(sums, rows, weights[0]);
    lane_5(sums, rows, weights[1]);
    lane_6(sums, rows, weights[2]);
    lane_7(sums, rows, weights[3]);
}
