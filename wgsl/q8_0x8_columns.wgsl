// Shared by the broadcast matmuls (broadcast_columns.wgsl) with Q8_0x8 weights [N, K]: a step is a block.
//!include q8_0x8_block.wgsl

@group(0) @binding(3) var<storage, read> weight: array<vec2<u64>>;

// Where the blocks of the column's eight begin, and which of them is its own.
struct Run {
    at: u32,
    own: u32,
}

fn run_at(row: u32, start: u32) -> Run {
    return Run(eights_at(row / 8u, params.inner, start), row % 8u);
}

fn eight_bytes(long: u64) -> mat2x4<f32> {
    return mat2x4<f32>(vec4<f32>(unpack4xI8(u32(long))), vec4<f32>(unpack4xI8(u32(long >> 32u))));
}

fn sixteen_at(at: u32) -> Four {
    let longs = weight[at];
    let first = eight_bytes(longs.x);
    let second = eight_bytes(longs.y);
    return Four(first[0], first[1], second[0], second[1]);
}

fn quants_of(run: Run, half: u32) -> Four {
    return sixteen_at(run.at + 1u + run.own * 2u + half);
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    let scales = weight[run.at];
    let four = select(scales.x, scales.y, run.own > 3u);
    return vec2<f32>(unpack2x16float(u32(four >> (run.own % 4u * 16u))).x, 0.0);
}
