// cast: output = input, elementwise: f32 [rows, columns] to f16, rounded to a neighbour. What lies beyond 65,504 becomes an
// infinity, or the largest f16: WGSL leaves open which.
enable f16;

alias From = f32;
alias To = f16;
//!include cast_values.wgsl
