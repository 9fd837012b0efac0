// Shared by kernels that read f16 or f32 weights one by one. The including file declares `weight`, an array of words.
//!include f16_word.wgsl

override WEIGHT_IS_F16: bool = true;

fn dense_value(index: u32) -> f32 {
    if (WEIGHT_IS_F16) {
        return half_of(weight[index >> 1u], index);
    }
    return bitcast<f32>(weight[index]);
}
