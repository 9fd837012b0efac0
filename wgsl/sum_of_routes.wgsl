// Shared by the sums of experts' outputs: in f32, in the order of the routes.
//!include step.wgsl

struct Params {
    columns: u32,
    chosen: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<Activation>;
@group(0) @binding(3) var<storage, read> routes: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> output: array<Activation>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(workgroup, workgroups) * 256u + thread;
    if (index >= step.rows * params.columns) {
        return;
    }
    let first = index / params.columns * params.chosen;
    let column = index % params.columns;
    var sum = 0.0;
    for (var i = 0u; i < params.chosen; i++) {
        sum += bitcast<f32>(routes[first + i].y) * f32(input[(first + i) * params.columns + column]);
    }
    output[index] = Activation(sum);
}
