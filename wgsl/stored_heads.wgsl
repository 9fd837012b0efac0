// Shared by the stores: each row's key and value put into the state, normed and turned before where asked for.
// One workgroup per row and head; a thread stores pairs of values, which never share a word with another's.
//!include step.wgsl
//!include state_line.wgsl
//!include norm_factor.wgsl
//!include workgroup_sum.wgsl

override STATE_IS_F16: bool = true;
override HAS_VALUE_NORM: bool = false;
override HAS_ROTATION: bool = false;
override HAS_KEY_NORM: bool = false;

struct Params {
    columns: u32,
    head_dim: u32,
    capacity: u32,
    eps: f32,
    offset: f32,
    k_first: u32,
    k_columns: u32,
    v_first: u32,
    v_columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> k: array<Activation>;
@group(0) @binding(5) var<storage, read> v: array<Activation>;
@group(0) @binding(6) var<storage, read> weight: array<u32>;
@group(0) @binding(7) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(8) var<storage, read_write> output: array<u32>;

const THREADS = 64u;

fn store_pair(pair: u32, values: vec2<f32>) {
    if (STATE_IS_F16) {
        output[pair] = pack2x16float(values);
    } else {
        output[pair * 2u] = bitcast<u32>(values.x);
        output[pair * 2u + 1u] = bitcast<u32>(values.y);
    }
}

fn scaled(squares: f32) -> f32 {
    return 1.0 / sqrt(squares / f32(params.head_dim) + params.eps);
}

// Value `column` of the key head that begins at `start`, normed where asked for.
fn key(start: u32, column: u32, scale: f32) -> f32 {
    if (HAS_KEY_NORM) {
        return f32(k[start + column]) * scale * norm_factor(column);
    }
    return f32(k[start + column]);
}

// The same turned by the angles of the position, whose line of the table begins at `angles`.
fn turned(start: u32, column: u32, scale: f32, angles: u32) -> f32 {
    let x = key(start, column, scale);
    if (!HAS_ROTATION) {
        return x;
    }
    let half = params.head_dim / 2u;
    let turn = table[angles + column % half];
    if (column < half) {
        return x * turn.x - key(start, column + half, scale) * turn.y;
    }
    return x * turn.x + key(start, column - half, scale) * turn.y;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(workgroup, workgroups);
    let heads = params.columns / params.head_dim;
    if (index >= step.rows * heads) {
        return;
    }
    let row = rows[index / heads];
    let head = index % heads * params.head_dim;
    let from_k = index / heads * params.k_columns + params.k_first + head;
    let from_v = index / heads * params.v_columns + params.v_first + head;
    let pairs = params.columns / 2u;
    let target_pair = state_line(row) * params.columns + head / 2u;
    let angles = row.y * (params.head_dim / 2u);

    var key_scale = 1.0;
    if (HAS_KEY_NORM) {
        var squares = 0.0;
        for (var column = thread; column < params.head_dim; column += THREADS) {
            let value = f32(k[from_k + column]);
            squares += value * value;
        }
        key_scale = scaled(workgroup_sum(thread, squares));
        workgroupBarrier();
    }
    var value_scale = 1.0;
    if (HAS_VALUE_NORM) {
        var squares = 0.0;
        for (var column = thread; column < params.head_dim; column += THREADS) {
            let value = f32(v[from_v + column]);
            squares += value * value;
        }
        value_scale = scaled(workgroup_sum(thread, squares));
    }
    for (var pair = thread; pair < params.head_dim / 2u; pair += THREADS) {
        let at = pair * 2u;
        let keys = vec2<f32>(
            turned(from_k, at, key_scale, angles), turned(from_k, at + 1u, key_scale, angles)
        );
        store_pair(target_pair + pair, keys);
        let values = vec2<f32>(f32(v[from_v + at]), f32(v[from_v + at + 1u]));
        store_pair(target_pair + pairs + pair, values * value_scale);
    }
}
