// gelu: output = g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) * up, with g = gate; without up when HAS_GATE is false.
// output f32 [rows, columns]; gate f32 [rows, gate_columns], of which the first columns are taken; up f32
// [rows, up_columns], of which those from up_first on.
//!include activation_f32.wgsl
//!include gated_values.wgsl
