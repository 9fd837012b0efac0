// rmsnorm: output = (input * rsqrt(mean(input^2) + eps) * (offset + weight) [+ residual]) * gain, per segment of `columns`.
// input, residual, output f32 [rows, segments * columns]; weight f16 or f32 [columns], or none (1).
//!include activation_f32.wgsl
//!include norm_segments.wgsl
