// Shared by kernels with a norm: what a normalised value is multiplied with. The including file declares `weight`,
// an array of words, and params.offset.
//!include dense_value.wgsl

fn norm_factor(column: u32) -> f32 {
    return params.offset + dense_value(column);
}
