// Shared by the broadcast kernels: values out of words of 64 bits. Loads are what takes a software GPU adapter's time, and
// it loads two such words at once for two thirds of what four of 32 bits cost.

fn four_f16(long: u64) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(u32(long)), unpack2x16float(u32(long >> 32u)));
}

fn two_f32(long: u64) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2<u32>(u32(long), u32(long >> 32u)));
}

fn four_f32(longs: vec2<u64>) -> vec4<f32> {
    return vec4<f32>(two_f32(longs.x), two_f32(longs.y));
}
