// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k]
// input f32 [R, K]; weight f16 [N, K], two values a word; output f32 [R, N]. Products and sums in f32.
//!include step.wgsl
//!include f16_word.wgsl
//!include matmul_tile.wgsl

fn weight4(n: u32, k: u32) -> vec4<f32> {
    let base = n * params.inner + k;
    if (params.inner % 4u == 0u) {
        return vec4<f32>(unpack2x16float(weight[base / 2u]), unpack2x16float(weight[base / 2u + 1u]));
    }
    // Rows start anywhere, and may end inside these four.
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (k + i < params.inner) {
            values[i] = half_of(weight[(base + i) / 2u], base + i);
        }
    }
    return values;
}
