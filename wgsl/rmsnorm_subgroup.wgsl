// rmsnorm: output = (input * rsqrt(mean(input^2) + eps) * (offset + weight) [+ residual]) * gain, per segment of `columns`.
// The same as rmsnorm.wgsl, for software GPU adapters with subgroups of 8; columns a multiple of 4, weight f32.
// input, residual, output f32 [rows, segments * columns]; weight f32 [columns], or none (1). f32 sums.
// A workgroup of 8 lanes makes one segment: no workgroup memory and no barriers, which cost more there than the sums.
//!include step.wgsl

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
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>;

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let segment = group_index(workgroup, workgroups);
    if (segment >= step.rows * params.segments) {
        return;
    }
    let fours = params.columns / 4u;
    let base = segment * fours;

    var sums = vec4<f32>();
    for (var index = lane; index < fours; index += 8u) {
        let values = input[base + index];
        sums += values * values;
    }
    let sum = subgroupAdd(dot(sums, vec4<f32>(1.0)));

    let scale = 1.0 / sqrt(sum / f32(params.columns) + params.eps);
    for (var index = lane; index < fours; index += 8u) {
        var values = input[base + index] * scale;
        if (HAS_WEIGHT) {
            values *= weight[index] + params.offset;
        }
        if (HAS_RESIDUAL) {
            values += residual[base + index];
        }
        output[base + index] = values * params.gain;
    }
}
