// gather: output[r, c] = weight[id of row r, c] * scale, the table staying packed on the device.
// rows u32 [R, 4]; weight Q8_0 [V, columns], columns a multiple of 32; output f32 [R, columns].
//!include step.wgsl
//!include q8_0_chunk.wgsl
//!include packed_gather.wgsl
