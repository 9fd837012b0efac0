// Shared by kernels with a norm: what a normalised value is multiplied with. The including file declares `weight`,
// an array of words, and params.offset.
//!include f16_word.wgsl

override WEIGHT_IS_F16: bool = false;

fn norm_factor(column: u32) -> f32 {
    if (WEIGHT_IS_F16) {
        return params.offset + half_of(weight[column >> 1u], column);
    }
    return params.offset + bitcast<f32>(weight[column]);
}
