// Shared by the broadcast matmuls (broadcast_columns.wgsl) with f16 or f32 weights [N, K]: q is the weight itself.

override WEIGHT_IS_F16: bool = true;

@group(0) @binding(3) var<storage, read> weight: array<vec2<u64>>;

// Where the step begins, in fours of f32 or eights of f16. They are loaded where they are used: none is used twice.
alias Run = u32;

fn run_at(row: u32, start: u32) -> Run {
    return (row * params.inner + start) / select(4u, 8u, WEIGHT_IS_F16);
}

fn quants_of(run: Run, half: u32) -> Four {
    if (WEIGHT_IS_F16) {
        let first = weight[run + half * 2u];
        let second = weight[run + half * 2u + 1u];
        return Four(four_f16(first.x), four_f16(first.y), four_f16(second.x), four_f16(second.y));
    }
    let at = run + half * 4u;
    return Four(four_f32(weight[at]), four_f32(weight[at + 1u]), four_f32(weight[at + 2u]), four_f32(weight[at + 3u]));
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    return vec2<f32>(1.0, 0.0);
}
