// cast: output = input, elementwise: f16 [rows, columns] to f32, which holds every f16.
enable f16;

alias From = f16;
alias To = f32;
//!include cast_values.wgsl
