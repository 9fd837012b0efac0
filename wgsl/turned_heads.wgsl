// Shared by the plain rotations: the pair (x[i], x[i + d/2]) of each head is turned by the angle of (position, i), each
// head normed before where there is a weight. One workgroup per head. Norm and rotation in f32.
//!include step.wgsl
//!include norm_factor.wgsl
//!include workgroup_sum.wgsl

override HAS_NORM: bool = false;

struct Params {
    heads: u32,
    head_dim: u32,
    eps: f32,
    offset: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> input: array<Activation>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> output: array<Activation>;

const THREADS = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group_index(workgroup, workgroups);
    if (head >= step.rows * params.heads) {
        return;
    }
    let base = head * params.head_dim;
    let half = params.head_dim / 2u;
    let angles = rows[head / params.heads].y * half;

    var scale = 1.0;
    if (HAS_NORM) {
        var squares = 0.0;
        for (var column = thread; column < params.head_dim; column += THREADS) {
            let value = f32(input[base + column]);
            squares += value * value;
        }
        scale = 1.0 / sqrt(workgroup_sum(thread, squares) / f32(params.head_dim) + params.eps);
    }
    for (var pair = thread; pair < half; pair += THREADS) {
        var x = f32(input[base + pair]);
        var y = f32(input[base + half + pair]);
        if (HAS_NORM) {
            x *= scale * norm_factor(pair);
            y *= scale * norm_factor(half + pair);
        }
        let turn = table[angles + pair];
        output[base + pair] = Activation(x * turn.x - y * turn.y);
        output[base + half + pair] = Activation(y * turn.x + x * turn.y);
    }
}
