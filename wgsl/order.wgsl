// Shared by the kernels that choose tokens: f32 bits as whole numbers that sort as the values do.
// Comparing whole numbers is exact on every device; infinities and NaN are not (WGSL lets a device assume them away).

const NOTHING = 0x007fffffu; // -inf: a token that may not be chosen
const INFINITE = 0xff800000u; // +inf
const NOT_A_NUMBER = 0xffffffffu; // above all: one NaN in a row is its greatest

// What stands in place of a token where there is none (plan.sampling).
const NO_TOKEN = 0xffffffffu; // every token is forbidden
const BROKEN = 0xfffffffeu; // a logit is NaN

fn order(bits: u32) -> u32 {
    let magnitude = bits & 0x7fffffffu;
    let signed = select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
    return select(signed, NOT_A_NUMBER, magnitude > 0x7f800000u);
}

fn ordered_bits(order: u32) -> u32 {
    return select(~order, order ^ 0x80000000u, order >= 0x80000000u);
}

// The value of an order between those of the two infinities.
fn ordered_value(order: u32) -> f32 {
    return bitcast<f32>(ordered_bits(order));
}
