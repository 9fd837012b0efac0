// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k]
// input f32 [R, K]; weight f32 [N, K]; output f32 [R, N]. Products and sums in f32.
//!include activation_f32.wgsl
//!include step.wgsl
//!include matmul_tile.wgsl

fn weight4(n: u32, k: u32) -> vec4<f32> {
    let base = n * params.inner + k;
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (k + i < params.inner) {
            values[i] = bitcast<f32>(weight[base + i]);
        }
    }
    return values;
}
