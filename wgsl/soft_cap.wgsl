// Shared: a value bounded softly by a cap above 0. In f32 tanh is 1 beyond 15, where exp overflows in some drivers.

fn soft_cap(value: f32, cap: f32) -> f32 {
    return cap * tanh(clamp(value / cap, -15.0, 15.0));
}
