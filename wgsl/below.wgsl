// Shared by the kernels that weigh tokens: how far one lies below the best, by their logits' orders.
//!include order.wgsl

// (logit - the best) / temperature, at least -100: exp of less is 0, and some devices make a NaN of exp(-inf).
fn below(order: u32, best: u32, temperature: f32) -> f32 {
    return select(max((ordered_value(order) - ordered_value(best)) / temperature, -100.0), 0.0, order == best);
}
