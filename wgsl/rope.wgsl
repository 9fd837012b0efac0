// rope: the pair (x[i], x[i + d/2]) of each head is turned by the angle of (position, i):
//   output[i] = x[i] cos - x[i + d/2] sin,   output[i + d/2] = x[i + d/2] cos + x[i] sin,   i < d/2
// x is the input, or with a weight the head's RMS norm of it: input * rsqrt(mean(input^2) + eps) * (offset + weight).
// rows u32 [R, 4]; input, output f32 [R, heads * head_dim]; weight f16 or f32 [head_dim], or none;
// table f32 [positions, head_dim / 2, 2] (cos, sin). One workgroup per head.
//!include activation_f32.wgsl
//!include turned_heads.wgsl
