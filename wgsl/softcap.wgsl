// softcap: output = cap * tanh(input / cap), elementwise. f32 [rows, columns].
//!include each_value.wgsl
//!include soft_cap.wgsl

struct Params {
    cap: f32,
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

fn make_value(index: u32) {
    output[index] = soft_cap(input[index], params.cap);
}
