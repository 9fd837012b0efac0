// Activations are f32: what a kernel reads of an earlier op, and what it writes for a later one.

alias Activation = f32;
