// Shared: a value bounded softly by a cap above 0. In f32 tanh is 1 beyond 15, where exp overflows in some drivers.

fn soft_cap(value: f32, cap: f32) -> f32 {
    let capped = cap * tanh(clamp(value / cap, -15.0, 15.0));
    // As a whole number: WGSL lets a device assume that there is no NaN, and some make a bound of one that is clamped.
    return select(capped, value, (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u);
}
