// Shared by the residuals: output = a + b, elementwise, in f32.
//!include each_value.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> a: array<Activation>;
@group(0) @binding(3) var<storage, read> b: array<Activation>;
@group(0) @binding(4) var<storage, read_write> output: array<Activation>;

fn make_value(index: u32) {
    output[index] = Activation(f32(a[index]) + f32(b[index]));
}
