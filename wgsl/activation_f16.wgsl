// Activations are f16: what a kernel reads of an earlier op, and what it writes for a later one. Between the two it computes
// in f32. A result beyond 65,504 is written as an infinity, or as the largest f16: WGSL leaves open which.
enable f16;

alias Activation = f16;
