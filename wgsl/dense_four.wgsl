// Shared by kernels that read f16 or f32 weights by fours. The including file declares `weight`, an array of vec2<u32>.

override WEIGHT_IS_F16: bool = true;

// Values 4 index .. 4 index + 3.
fn weight_four(index: u32) -> vec4<f32> {
    if (WEIGHT_IS_F16) {
        let words = weight[index];
        return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
    }
    return vec4<f32>(bitcast<vec2<f32>>(weight[index * 2u]), bitcast<vec2<f32>>(weight[index * 2u + 1u]));
}
