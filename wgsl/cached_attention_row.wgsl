// Shared by the cached attention kernels for few rows: a workgroup of THREADS (given by the including file, at least a
// quarter of head_dim, at most 256) makes one row of one head, over chunks of as many positions. First each thread makes
// the score of one position; then `fours` threads make the output, or several such parts for every so-manyth position.
// Before, where HAS_NORM, the query is normed: q * rsqrt(mean(q^2) + eps) * (offset + weight), weight f16 or f32 [head_dim];
// where HAS_ROTATION its pairs (i, i + head_dim / 2) are turned by table, f32 [positions, head_dim / 2, 2] (cos, sin).
//!include cached.wgsl
//!include norm_factor.wgsl

override HAS_NORM: bool = false;
override HAS_ROTATION: bool = false;

@group(0) @binding(7) var<storage, read> weight: array<u32>;
@group(0) @binding(8) var<storage, read> table: array<vec2<f32>>;

const MOST_FOURS = 128u;
var<workgroup> query: array<vec4<f32>, MOST_FOURS>;
var<workgroup> scores: array<f32, THREADS>;
var<workgroup> scratch: array<f32, THREADS>;
var<workgroup> outputs: array<vec4<f32>, THREADS>;

// Value `column` of the query that begins at `asked`, normed.
fn normed_value(asked: u32, column: u32, scale: f32) -> f32 {
    let value = q[asked + column / 4u][column % 4u];
    if (HAS_NORM) {
        return value * scale * norm_factor(column);
    }
    return value;
}

// The same, turned.
fn query_value(asked: u32, column: u32, position: u32, scale: f32) -> f32 {
    let own = normed_value(asked, column, scale);
    if (!HAS_ROTATION) {
        return own;
    }
    let half = params.head_dim / 2u;
    let other = normed_value(asked, (column + half) % params.head_dim, scale);
    let turn = table[position * half + column % half];
    return own * turn.x + select(other, -other, column < half) * turn.y;
}

// The query into `query`, ready for its products.
fn load_query(asked: u32, position: u32, thread: u32) {
    let fours = params.head_dim / 4u;
    var scale = 1.0;
    if (HAS_NORM) {
        scratch[thread] = 0.0;
        if (thread < fours) {
            scratch[thread] = dot(q[asked + thread], q[asked + thread]);
        }
        workgroupBarrier();
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            if (thread < half) {
                scratch[thread] += scratch[thread + half];
            }
            workgroupBarrier();
        }
        scale = 1.0 / sqrt(scratch[0] / f32(params.head_dim) + params.eps);
    }
    if (thread < fours) {
        let column = thread * 4u;
        query[thread] = params.scale * vec4<f32>(
            query_value(asked, column, position, scale),
            query_value(asked, column + 1u, position, scale),
            query_value(asked, column + 2u, position, scale),
            query_value(asked, column + 3u, position, scale),
        );
    }
    workgroupBarrier();
}

fn attend(group: u32, thread: u32) {
    let row = group / params.heads;
    let head = group % params.heads;
    if (row >= step.rows) {
        return;
    }
    let fours = params.head_dim / 4u;
    let parts = THREADS / fours;
    let part = thread / fours;
    let lane = thread % fours;
    let own = (row * params.heads + head) * fours;
    let seen = span(row);
    let place = slots[rows[row].z].w;
    let kv_head = key_head(head);

    load_query(row * (params.q_columns / 4u) + head * fours, rows[row].y, thread);

    var sum = vec4<f32>();
    var total = 0.0;
    var peak = MASKED;
    for (var start = seen.x; start <= seen.y; start += THREADS) {
        let count = min(THREADS, seen.y + 1u - start);
        let ring = start % params.capacity;
        var score = MASKED;
        if (thread < count) {
            let at = key_at(place, ring + thread, kv_head);
            var product = 0.0;
            for (var i = 0u; i < fours; i++) {
                product += dot(query[i], state_four(at + i));
            }
            score = capped(product);
        }
        scores[thread] = score;
        scratch[thread] = score;
        workgroupBarrier();
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            if (thread < half) {
                scratch[thread] = max(scratch[thread], scratch[thread + half]);
            }
            workgroupBarrier();
        }
        let higher = max(peak, scratch[0]);
        let shrink = exp(peak - higher);
        peak = higher;
        sum *= shrink;
        total *= shrink;
        for (var key = part; key < select(0u, count, part < parts); key += parts) {
            let weight = exp(scores[key] - peak);
            total += weight;
            sum += weight * state_four(key_at(place, ring + key, kv_head) + value_offset() + lane);
        }
        workgroupBarrier();
    }

    outputs[thread] = sum;
    scratch[thread] = total;
    workgroupBarrier();
    if (thread < fours) {
        for (var other = thread + fours; other < parts * fours; other += fours) {
            sum += outputs[other];
            total += scratch[other];
        }
        output[own + thread] = sum / total;
    }
}
