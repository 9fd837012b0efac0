// Shared by the broadcast matmuls (broadcast_columns.wgsl) with Q8_0 weights [N, K]: a step is a block, of 32 values in
// 34 bytes (17 half-words): d as f16, then 32 signed bytes q; value = d * q.
//!include long_words.wgsl

alias Run = array<vec2<u32>, 5>;

fn run_at(row: u32, start: u32) -> Run {
    return ten_words((row * (params.inner / 32u) + start / 32u) * 17u);
}

// The upper two bytes of a word and the lower two of the next.
fn middle(word: u32, next: u32) -> vec4<f32> {
    let a = bitcast<i32>(word);
    let b = bitcast<i32>(next);
    return vec4<f32>(vec4<i32>(a << 8u, a, b << 24u, b << 16u) >> vec4<u32>(24u));
}

fn quants_of(run: Run, half: u32) -> Four {
    let a = run[half * 2u];
    let b = run[half * 2u + 1u];
    let c = run[half * 2u + 2u];
    return Four(middle(a.x, a.y), middle(a.y, b.x), middle(b.x, b.y), middle(b.y, c.x));
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    return vec2<f32>(unpack2x16float(run[0].x).x, 0.0);
}
