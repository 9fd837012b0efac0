// projections: output[r] = [x a^T | x b^T | x c^T], x = input[r] * rsqrt(mean(input[r]^2) + eps) * (offset + weight), few rows.
// input f32 [R, K]; weight, of the norm, f16 or f32 [K]; a, and b and c where there are, Q4_K [a_rows, K], [b_rows, K],
// [the rest of columns, K], K a multiple of 32, staying packed; output f32 [R, columns]. All sums in f32. 16 lanes make a
// column, a workgroup 16 columns; each workgroup makes the norm anew, which costs less than a dispatch of its own.
//!include step.wgsl
//!include q4_k_chunk.wgsl
//!include column_sum.wgsl
//!include norm_factor.wgsl

override HAS_B: bool = false;
override HAS_C: bool = false;

struct Params {
    columns: u32,
    inner: u32,
    a_rows: u32,
    b_rows: u32,
    eps: f32,
    offset: f32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read> a: array<u32>;
@group(0) @binding(5) var<storage, read> b: array<u32>;
@group(0) @binding(6) var<storage, read> c: array<u32>;
@group(0) @binding(7) var<storage, read_write> output: array<f32>;

const LANES = 16u;

// Which matrix this thread's column is a row of: 0, 1, 2 for a, b, c.
var<private> matrix: u32;

fn weight_at(index: u32) -> u32 {
    if (HAS_C && matrix == 2u) {
        return c[index];
    }
    if (HAS_B && matrix == 1u) {
        return b[index];
    }
    return a[index];
}

fn factors(k: u32) -> vec4<f32> {
    return vec4<f32>(norm_factor(k), norm_factor(k + 1u), norm_factor(k + 2u), norm_factor(k + 3u));
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let columns = THREADS / LANES;
    let tiles = (params.columns + columns - 1u) / columns;
    let group = group_index(workgroup, workgroups);
    let row = group / tiles;
    let column = group % tiles * columns + thread / LANES;
    let chunks = params.inner / 32u;
    let base = min(row, step.rows - 1u) * chunks * 8u;

    // Past the end the last column is repeated: what comes of it is not stored.
    var n = min(column, params.columns - 1u);
    matrix = 0u;
    if (HAS_B && n >= params.a_rows) {
        matrix = 1u;
        n -= params.a_rows;
        if (HAS_C && n >= params.b_rows) {
            matrix = 2u;
            n -= params.b_rows;
        }
    }

    var squares = 0.0;
    for (var index = thread; index < chunks * 8u; index += THREADS) {
        let values = input[base + index];
        squares += dot(values, values);
    }
    column_sum(thread, THREADS, squares);
    let scale = 1.0 / sqrt(sums[0] / f32(params.inner) + params.eps);
    workgroupBarrier();

    var sum = 0.0;
    for (var index = thread % LANES; index < chunks; index += LANES) {
        let chunk = chunk_at(n, chunks, index);
        for (var i = 0u; i < 8u; i++) {
            let values = input[base + index * 8u + i] * factors(index * 32u + i * 4u);
            sum += dot(values, chunk_four(chunk, i));
        }
    }
    sum = column_sum(thread, LANES, sum) * scale;
    if (thread % LANES == 0u && row < step.rows && column < params.columns) {
        output[row * params.columns + column] = sum;
    }
}
