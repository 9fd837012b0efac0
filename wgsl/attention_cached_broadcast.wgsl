// cached_attention: softmax over the keys and values of a state, f16 (or f32), for software GPU adapters with subgroups of 8.
// head_dim a multiple of 64. A workgroup of 8 lanes makes one row of up to four heads that share keys and values, so that
// these are loaded once, over blocks of 256 positions, the softmax being online between blocks:
//   scores   of 32 positions at a time, lane l the positions 4 l .. 4 l + 3
//   output   64 of the head's values at a time, lane l the values 8 l .. 8 l + 7; sums lie in `output` itself
// No lane reads from memory what another one wrote, so that there are no barriers.
//!include activation_f32.wgsl
//!include step.wgsl
//!include cached_rows.wgsl
//!include cached_eights.wgsl
//!include broadcast.wgsl

const BLOCK = 256u;
const PITCH = 64u;

// [head][tile of 32 positions][lane]: the scores of four positions, then their weights.
var<workgroup> scores: array<vec4<f32>, 4u * PITCH>;

// One for each of four heads, or of four positions.
alias Each = array<vec4<f32>, 4>;

// The keys at offset .. offset + 3, 16 of their columns.
fn keys4(seen: Seen, offset: u32, column: u32) -> Sixteen {
    let a = eight(seen, offset, column);
    let b = eight(seen, offset + 1u, column);
    let c = eight(seen, offset + 2u, column);
    let d = eight(seen, offset + 3u, column);
    let e = eight(seen, offset, column + 8u);
    let f = eight(seen, offset + 1u, column + 8u);
    let g = eight(seen, offset + 2u, column + 8u);
    let h = eight(seen, offset + 3u, column + 8u);
    return Sixteen(
        mat4x4<f32>(a[0], b[0], c[0], d[0]), mat4x4<f32>(a[1], b[1], c[1], d[1]),
        mat4x4<f32>(e[0], f[0], g[0], h[0]), mat4x4<f32>(e[1], f[1], g[1], h[1]),
    );
}

// Four keys at 32 columns times a head's query, of which each lane holds four columns.
fn products(own: vec4<f32>, near: Sixteen, far: Sixteen) -> vec4<f32> {
    return (subgroupBroadcast(own, 0u) * near[0] + subgroupBroadcast(own, 1u) * near[1])
        + (subgroupBroadcast(own, 2u) * near[2] + subgroupBroadcast(own, 3u) * near[3])
        + (subgroupBroadcast(own, 4u) * far[0] + subgroupBroadcast(own, 5u) * far[1])
        + (subgroupBroadcast(own, 6u) * far[2] + subgroupBroadcast(own, 7u) * far[3]);
}

// Keeps a head's scores of four positions, MASKED past the last one; the greatest of them and of `top`.
fn keep(at: u32, sums: vec4<f32>, offset: u32, last: u32, top: f32) -> f32 {
    let logits = sums * params.scale;
    let finished = vec4<f32>(capped(logits.x), capped(logits.y), capped(logits.z), capped(logits.w));
    let there = vec4<u32>(offset, offset + 1u, offset + 2u, offset + 3u) <= vec4<u32>(last);
    let kept = select(vec4<f32>(MASKED), finished, there);
    scores[at] = kept;
    return max(top, max(max(kept.x, kept.y), max(kept.z, kept.w)));
}

// A weight below 1e-26 is 0: it changes no f32 sum, and its products would be subnormal, which processors take a
// hundred times as long for.
fn weights4(logits: vec4<f32>, peak: f32) -> vec4<f32> {
    let below = logits - peak;
    return select(vec4<f32>(), exp(below), below > vec4<f32>(-60.0));
}

// Makes weights of a head's scores; their sum over all lanes.
fn weigh(first: u32, end: u32, peak: f32) -> f32 {
    var total = vec4<f32>();
    for (var at = first; at < end; at += 8u) {
        let weights = weights4(scores[at], peak);
        scores[at] = weights;
        total += weights;
    }
    return subgroupAdd(dot(total, vec4<f32>(1.0)));
}

// Of each head, 8 columns of the output.
alias Sums = array<Values, 4>;

// weights: of each head.
fn add_value(sums: ptr<function, Sums>, weights: vec4<f32>, value: Values) {
    (*sums)[0][0] += weights.x * value[0];
    (*sums)[0][1] += weights.x * value[1];
    (*sums)[1][0] += weights.y * value[0];
    (*sums)[1][1] += weights.y * value[1];
    (*sums)[2][0] += weights.z * value[0];
    (*sums)[2][1] += weights.z * value[1];
    (*sums)[3][0] += weights.w * value[0];
    (*sums)[3][1] += weights.w * value[1];
}

// weights: those of the positions offset .. offset + 3, each with all heads.
fn add_values(sums: ptr<function, Sums>, weights: Each, seen: Seen, offset: u32, column: u32) {
    add_value(sums, weights[0], eight(seen, offset, column));
    add_value(sums, weights[1], eight(seen, offset + 1u, column));
    add_value(sums, weights[2], eight(seen, offset + 2u, column));
    add_value(sums, weights[3], eight(seen, offset + 3u, column));
}

// What `output` holds before the first block is not ours, and 0 times a NaN is a NaN.
fn store_eight(at: u32, sums: Values, share: f32, carry: f32, fresh: bool) {
    output[at] = sums[0] * share + select(output[at] * carry, vec4<f32>(), fresh);
    output[at + 1u] = sums[1] * share + select(output[at + 1u] * carry, vec4<f32>(), fresh);
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sharing = params.heads / params.kv_heads;
    let quads = (sharing + 3u) / 4u;
    let group = group_index(workgroup, workgroups);
    let row = group / (params.kv_heads * quads);
    if (row >= step.rows) {
        return;
    }
    let kv_head = group / quads % params.kv_heads;
    // Past the group's last head it is made again.
    let last_head = (kv_head + 1u) * sharing - 1u;
    let first_head = kv_head * sharing + group % quads * 4u;
    let heads = min(vec4<u32>(first_head, first_head + 1u, first_head + 2u, first_head + 3u), vec4<u32>(last_head));
    let head_dim = bound(params.head_dim);
    let queries = (row * params.q_columns + heads * params.head_dim) / 4u + lane;
    let outputs = ((row * params.heads + heads) * params.head_dim) / 4u + lane * 2u;
    let sight = span(row);
    let line = slots[rows[row].z].w * params.capacity;

    var peaks = vec4<f32>(MASKED);
    var totals = vec4<f32>();
    for (var block = sight.x; block <= sight.y; block += BLOCK) {
        let seen = Seen(line, block % params.capacity, sight.y - block, kv_head * params.head_dim);
        let tiles = (min(BLOCK, sight.y + 1u - block) + 31u) / 32u;

        var tops = vec4<f32>(MASKED);
        for (var tile = 0u; tile < tiles; tile++) {
            let offset = tile * 32u + lane * 4u;
            var sums = Each();
            for (var column = 0u; column < head_dim; column += 32u) {
                let at = queries + column / 4u;
                let near = keys4(seen, offset, column);
                let far = keys4(seen, offset, column + 16u);
                sums[0] += products(q[at.x], near, far);
                sums[1] += products(q[at.y], near, far);
                sums[2] += products(q[at.z], near, far);
                sums[3] += products(q[at.w], near, far);
            }
            let at = tile * 8u + lane;
            tops.x = keep(at, sums[0], offset, seen.last, tops.x);
            tops.y = keep(at + PITCH, sums[1], offset, seen.last, tops.y);
            tops.z = keep(at + PITCH * 2u, sums[2], offset, seen.last, tops.z);
            tops.w = keep(at + PITCH * 3u, sums[3], offset, seen.last, tops.w);
        }

        let before = peaks;
        peaks = max(peaks, subgroupMax(tops));
        let shrink = exp(before - peaks);
        let end = tiles * 8u;
        totals = totals * shrink + vec4<f32>(
            weigh(lane, end, peaks.x),
            weigh(lane + PITCH, end + PITCH, peaks.y),
            weigh(lane + PITCH * 2u, end + PITCH * 2u, peaks.z),
            weigh(lane + PITCH * 3u, end + PITCH * 3u, peaks.w),
        );

        let fresh = block == sight.x;
        let share = select(vec4<f32>(1.0), 1.0 / totals, block + BLOCK > sight.y);
        let carry = shrink * share;
        for (var column = 0u; column < head_dim; column += 64u) {
            let values = value_column() + column + lane * 8u;
            var sums = Sums();
            for (var tile = 0u; tile < tiles; tile++) {
                let at = tile * 8u + lane;
                // A column for each of the lane's positions, of the weights it has with each head.
                let own = transpose(mat4x4<f32>(
                    scores[at], scores[at + PITCH], scores[at + PITCH * 2u], scores[at + PITCH * 3u]
                ));
                let a = own[0];
                let b = own[1];
                let c = own[2];
                let d = own[3];
                let to = tile * 32u;
                let of_0 = Each(
                    subgroupBroadcast(a, 0u), subgroupBroadcast(b, 0u), subgroupBroadcast(c, 0u), subgroupBroadcast(d, 0u)
                );
                add_values(&sums, of_0, seen, to, values);
                let of_1 = Each(
                    subgroupBroadcast(a, 1u), subgroupBroadcast(b, 1u), subgroupBroadcast(c, 1u), subgroupBroadcast(d, 1u)
                );
                add_values(&sums, of_1, seen, to + 4u, values);
                let of_2 = Each(
                    subgroupBroadcast(a, 2u), subgroupBroadcast(b, 2u), subgroupBroadcast(c, 2u), subgroupBroadcast(d, 2u)
                );
                add_values(&sums, of_2, seen, to + 8u, values);
                let of_3 = Each(
                    subgroupBroadcast(a, 3u), subgroupBroadcast(b, 3u), subgroupBroadcast(c, 3u), subgroupBroadcast(d, 3u)
                );
                add_values(&sums, of_3, seen, to + 12u, values);
                let of_4 = Each(
                    subgroupBroadcast(a, 4u), subgroupBroadcast(b, 4u), subgroupBroadcast(c, 4u), subgroupBroadcast(d, 4u)
                );
                add_values(&sums, of_4, seen, to + 16u, values);
                let of_5 = Each(
                    subgroupBroadcast(a, 5u), subgroupBroadcast(b, 5u), subgroupBroadcast(c, 5u), subgroupBroadcast(d, 5u)
                );
                add_values(&sums, of_5, seen, to + 20u, values);
                let of_6 = Each(
                    subgroupBroadcast(a, 6u), subgroupBroadcast(b, 6u), subgroupBroadcast(c, 6u), subgroupBroadcast(d, 6u)
                );
                add_values(&sums, of_6, seen, to + 24u, values);
                let of_7 = Each(
                    subgroupBroadcast(a, 7u), subgroupBroadcast(b, 7u), subgroupBroadcast(c, 7u), subgroupBroadcast(d, 7u)
                );
                add_values(&sums, of_7, seen, to + 28u, values);
            }
            let at = outputs + column / 4u;
            store_eight(at.x, sums[0], share.x, carry.x, fresh);
            if (first_head + 1u <= last_head) { store_eight(at.y, sums[1], share.y, carry.y, fresh); }
            if (first_head + 2u <= last_head) { store_eight(at.z, sums[2], share.z, carry.z, fresh); }
            if (first_head + 3u <= last_head) { store_eight(at.w, sums[3], share.w, carry.w, fresh); }
        }
    }
}
