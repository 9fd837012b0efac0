// store: output[place of the row * capacity + position % capacity] = [k | v], for each row.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); k, v f32 [T, columns],
// heads of head_dim values; output, a state, f16 or f32 [places * capacity, 2 * columns], of which only these rows change.
// HAS_VALUE_NORM: each head of v is divided by its root mean square first, v * rsqrt(mean(v^2) + eps).
// One workgroup per row and head; a thread stores pairs of values, which never share a word with another's.
//!include step.wgsl
//!include workgroup_sum.wgsl

override STATE_IS_F16: bool = true;
override HAS_VALUE_NORM: bool = false;

struct Params {
    columns: u32,
    head_dim: u32,
    capacity: u32,
    eps: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> k: array<f32>;
@group(0) @binding(5) var<storage, read> v: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<u32>;

fn store_pair(pair: u32, values: vec2<f32>) {
    if (STATE_IS_F16) {
        output[pair] = pack2x16float(values);
    } else {
        output[pair * 2u] = bitcast<u32>(values.x);
        output[pair * 2u + 1u] = bitcast<u32>(values.y);
    }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let head = group_index(workgroup, workgroups);
    let heads = params.columns / params.head_dim;
    if (head >= step.rows * heads) {
        return;
    }
    let row = rows[head / heads];
    let base = head * params.head_dim;
    let pairs = params.columns / 2u;
    let line = slots[row.z].w * params.capacity + row.y % params.capacity;
    let target_pair = line * params.columns + head % heads * params.head_dim / 2u;

    var scale = 1.0;
    if (HAS_VALUE_NORM) {
        var squares = 0.0;
        for (var column = thread; column < params.head_dim; column += THREADS) {
            let value = v[base + column];
            squares += value * value;
        }
        scale = 1.0 / sqrt(workgroup_sum(thread, squares) / f32(params.head_dim) + params.eps);
    }
    for (var pair = thread; pair < params.head_dim / 2u; pair += THREADS) {
        let at = base + pair * 2u;
        store_pair(target_pair + pair, vec2<f32>(k[at], k[at + 1u]));
        store_pair(target_pair + pairs + pair, vec2<f32>(v[at], v[at + 1u]) * scale);
    }
}
