// Shared: the tanh form of gelu. Its argument is clamped to +-15, where tanh is 1 in f32 (exp would overflow in some drivers).

fn gelu_tanh(x: f32) -> f32 {
    let inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}
