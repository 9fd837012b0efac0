// Shared by the casts: output = input, elementwise, in another type. The including file gives the types From and To.
//!include each_value.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<From>;
@group(0) @binding(3) var<storage, read_write> output: array<To>;

fn make_value(index: u32) {
    output[index] = To(input[index]);
}
