// rope: the pair (x[i], x[i + d/2]) of each head is turned by the angle of (position, i):
//   output[i] = x[i] cos - x[i + d/2] sin,   output[i + d/2] = x[i + d/2] cos + x[i] sin,   i < d/2
// rows u32 [T, 4]; input, output f32 [T, heads * head_dim]; table f32 [positions, head_dim / 2, 2] (cos, sin).
//!include step.wgsl

struct Params {
    heads: u32,
    head_dim: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> input: array<f32>;
@group(0) @binding(4) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let half = params.head_dim / 2u;
    let pairs = params.heads * half;
    let first = group_index(workgroup, workgroups) * 256u + thread;
    for (var part = 0u; part < 4u; part++) {
        let index = first + part * 64u;
        let row = index / pairs;
        if (row < step.rows) {
            let pair = index % half;
            let low = row * pairs * 2u + (index % pairs) / half * params.head_dim + pair;
            let turn = table[rows[row].y * half + pair];
            let x = input[low];
            let y = input[low + half];
            output[low] = x * turn.x - y * turn.y;
            output[low + half] = y * turn.x + x * turn.y;
        }
    }
}
