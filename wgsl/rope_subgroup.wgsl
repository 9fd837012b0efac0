// rope: the pair (x[i], x[i + d/2]) of each head is turned by the angle of (position, i), each head normed before with a weight.
// The same as rope.wgsl, for software GPU adapters with subgroups of 8; head_dim a multiple of 8, weight f32.
// rows u32 [R, 4]; input, output f32 [R, heads * head_dim]; weight f32 [head_dim], or none;
// table f32 [positions, head_dim / 2, 2] (cos, sin). A workgroup of 8 lanes makes one head: no workgroup memory and no
// barriers, which cost more there than the sums.
//!include step.wgsl

override HAS_NORM: bool = false;

struct Params {
    heads: u32,
    head_dim: u32,
    eps: f32,
    offset: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> table: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<f32>>;

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let head = group_index(workgroup, workgroups);
    if (head >= step.rows * params.heads) {
        return;
    }
    let fours = params.head_dim / 4u;
    let half = fours / 2u;
    let base = head * fours;
    let angles = rows[head / params.heads].y * fours;

    var scale = 1.0;
    if (HAS_NORM) {
        var squares = vec4<f32>();
        for (var index = lane; index < fours; index += 8u) {
            let values = input[base + index];
            squares += values * values;
        }
        let sum = subgroupAdd(dot(squares, vec4<f32>(1.0)));
        scale = 1.0 / sqrt(sum / f32(params.head_dim) + params.eps);
    }
    for (var index = lane; index < half; index += 8u) {
        var x = input[base + index];
        var y = input[base + half + index];
        if (HAS_NORM) {
            x *= scale * (weight[index] + params.offset);
            y *= scale * (weight[half + index] + params.offset);
        }
        let first = table[angles + 2u * index];
        let second = table[angles + 2u * index + 1u];
        let cosines = vec4<f32>(first.xz, second.xz);
        let sines = vec4<f32>(first.yw, second.yw);
        output[base + index] = x * cosines - y * sines;
        output[base + half + index] = y * cosines + x * sines;
    }
}
