// Shared by the broadcast matmuls for a row at a time: the inputs of a step of 32 along K, and their products with quants.
//!include broadcast_columns.wgsl

// The step's inputs: its first and its second 16.
struct Inputs {
    first: Four,
    second: Four,
}

fn inputs_at(row: u32, start: u32, lane: u32) -> Inputs {
    let own = input4(row, start + lane * 4u);
    return Inputs(
        Four(
            subgroupBroadcast(own, 0u), subgroupBroadcast(own, 1u), subgroupBroadcast(own, 2u), subgroupBroadcast(own, 3u)
        ),
        Four(
            subgroupBroadcast(own, 4u), subgroupBroadcast(own, 5u), subgroupBroadcast(own, 6u), subgroupBroadcast(own, 7u)
        ),
    );
}

fn product(inputs: Four, quants: Four) -> f32 {
    return (dot(inputs[0], quants[0]) + dot(inputs[1], quants[1]))
        + (dot(inputs[2], quants[2]) + dot(inputs[3], quants[3]));
}
