// Shared by the plain matmuls with f16 weights, two values a word.
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
