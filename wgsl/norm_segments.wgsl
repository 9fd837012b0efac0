// Shared by the plain norms: output = (input * rsqrt(mean(input^2) + eps) * (offset + weight) [+ residual]) * gain, per
// segment of `columns`. One workgroup per segment. The sum of squares is f32: inputs up to 1e17 do not overflow it.
//!include step.wgsl
//!include norm_factor.wgsl
//!include workgroup_sum.wgsl

override HAS_WEIGHT: bool = true;
override HAS_RESIDUAL: bool = false;

struct Params {
    eps: f32,
    offset: f32,
    gain: f32,
    columns: u32,
    segments: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<Activation>;
@group(0) @binding(3) var<storage, read> residual: array<Activation>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read_write> output: array<Activation>;

const THREADS = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let segment = group_index(workgroup, workgroups);
    if (segment >= step.rows * params.segments) {
        return;
    }
    let base = segment * params.columns;

    var squares = 0.0;
    for (var column = thread; column < params.columns; column += THREADS) {
        let value = f32(input[base + column]);
        squares += value * value;
    }
    let scale = 1.0 / sqrt(workgroup_sum(thread, squares) / f32(params.columns) + params.eps);

    for (var column = thread; column < params.columns; column += THREADS) {
        var value = f32(input[base + column]) * scale;
        if (HAS_WEIGHT) {
            value *= norm_factor(column);
        }
        if (HAS_RESIDUAL) {
            value += f32(residual[base + column]);
        }
        output[base + column] = Activation(value * params.gain);
    }
}
