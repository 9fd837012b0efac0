// Shared by the broadcast matmuls (broadcast_columns.wgsl) with f16 or f32 weights [N, K]: q is the weight itself.
// Loads of 128 bits as two of 64 cost a software GPU adapter two thirds of what four of 32 do.

override WEIGHT_IS_F16: bool = true;

@group(0) @binding(3) var<storage, read> weight: array<vec2<u64>>;

// Where the step begins, in fours of f32 or eights of f16. They are loaded where they are used: none is used twice.
alias Run = u32;

fn run_at(row: u32, start: u32) -> Run {
    return (row * params.inner + start) / select(4u, 8u, WEIGHT_IS_F16);
}

fn two_f32(long: u64) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2<u32>(u32(long), u32(long >> 32u)));
}

fn four_f32(at: u32) -> vec4<f32> {
    let longs = weight[at];
    return vec4<f32>(two_f32(longs.x), two_f32(longs.y));
}

fn four_f16(long: u64) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(u32(long)), unpack2x16float(u32(long >> 32u)));
}

fn quants_of(run: Run, half: u32) -> Four {
    if (WEIGHT_IS_F16) {
        let first = weight[run + half * 2u];
        let second = weight[run + half * 2u + 1u];
        return Four(four_f16(first.x), four_f16(first.y), four_f16(second.x), four_f16(second.y));
    }
    let at = run + half * 4u;
    return Four(four_f32(at), four_f32(at + 1u), four_f32(at + 2u), four_f32(at + 3u));
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    return vec2<f32>(1.0, 0.0);
}
