// Shared by the cached attention kernels for few rows: a workgroup of THREADS (given by the including file, at least a
// quarter of head_dim, at most 256) makes one row of one head, over chunks of as many positions. First each thread makes
// the score of one position; then `fours` threads make the output, or several such parts for every so-manyth position.
//!include cached.wgsl

const MOST_FOURS = 128u;
var<workgroup> query: array<vec4<f32>, MOST_FOURS>;
var<workgroup> scores: array<f32, THREADS>;
var<workgroup> scratch: array<f32, THREADS>;
var<workgroup> outputs: array<vec4<f32>, THREADS>;

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
    let position = rows[row].y;
    let place = slots[rows[row].z].w;
    let kv_head = key_head(head);

    if (thread < fours) {
        query[thread] = q[own + thread] * params.scale;
    }
    workgroupBarrier();

    var sum = vec4<f32>();
    var total = 0.0;
    var peak = MASKED;
    for (var start = first_seen(position); start <= position; start += THREADS) {
        let count = min(THREADS, position + 1u - start);
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
