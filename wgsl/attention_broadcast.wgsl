// attention: output[t, h] = softmax over visible keys j of (scale * q[t, h] . k[j, h / group]) times v[j, h / group]
// The same as attention_small.wgsl, for software GPU adapters with subgroups of 8; head_dim a multiple of 32.
// rows u32 [T, 4]; slots u32 [S, 4]; q, output f32 [T, heads * head_dim]; k, v f32 [T, kv_heads * head_dim].
// A workgroup of 8 lanes makes 32 rows of one head over blocks of 96 keys, the softmax being online between blocks:
//   scores   32 rows x 32 keys at a time, lane l the keys 4 l .. 4 l + 3
//   output   32 rows x 32 of the head's values at a time, lane l the values 4 l .. 4 l + 3; sums lie in `output` itself
// No lane reads from memory what another one wrote, so that there are no barriers.
//!include step.wgsl
//!include visible.wgsl
//!include broadcast_tile.wgsl
//!include eight_rows.wgsl

@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> output: array<vec4<f32>>;

const ROWS = 32u;
const BLOCK = 96u;
const MASKED = -3.0e38;

// [row][tile of 32 keys][lane]: sums, then the keys' weights.
var<workgroup> scores: array<vec4<f32>, ROWS * 24u>;
// [row][lane]: the largest score so far, the sum of this lane's weights, what sums of earlier blocks are worth now.
var<workgroup> peaks: array<f32, ROWS * 8u>;
var<workgroup> totals: array<f32, ROWS * 8u>;
var<workgroup> carry: array<f32, ROWS * 8u>;

// Rows past the end repeat the last one: what comes of them is not stored.
fn in_step(row: u32) -> u32 {
    return min(row, step.rows - 1u);
}

// Of a row: position, first key row, end of the key rows.
fn view(row: u32) -> vec3<u32> {
    let own = rows[in_step(row)];
    let slot = slots[own.z];
    return vec3<u32>(own.y, slot.x, slot.x + slot.y);
}

// The first and the end of the key rows that some of the workgroup's rows may see.
fn key_range(row: u32, lane: u32) -> vec2<u32> {
    var positions = vec2<u32>(0xffffffffu, 0u);
    var keys = vec2<u32>(0xffffffffu, 0u);
    for (var part = lane; part < ROWS; part += 8u) {
        let own = view(row + part);
        positions = vec2<u32>(min(positions.x, own.x), max(positions.y, own.x));
        keys = vec2<u32>(min(keys.x, own.y), max(keys.y, own.z));
    }
    let first_position = subgroupMin(positions.x);
    let last_position = subgroupMax(positions.y);
    let end_key = subgroupMax(keys.y);
    var seen = vec2<u32>(0xffffffffu, 0u);
    for (var key = subgroupMin(keys.x) + lane; key < end_key; key += 8u) {
        if (may_be_visible(first_position, last_position, rows[key].y)) {
            seen = vec2<u32>(min(seen.x, key), key + 1u);
        }
    }
    return vec2<u32>(subgroupMin(seen.x), subgroupMax(seen.y));
}

fn place(row: u32, column: u32) -> u32 {
    return (in_step(row) * params.heads * params.head_dim + column) / 4u;
}

fn query8(row: u32, column: u32) -> Eight {
    return Eight(
        q[place(row, column)],
        q[place(row + 1u, column)],
        q[place(row + 2u, column)],
        q[place(row + 3u, column)],
        q[place(row + 4u, column)],
        q[place(row + 5u, column)],
        q[place(row + 6u, column)],
        q[place(row + 7u, column)],
    );
}

fn key4(rows: vec4<u32>, column: u32) -> mat4x4<f32> {
    let at = (rows * params.kv_heads * params.head_dim + column) / 4u;
    return mat4x4<f32>(k[at.x], k[at.y], k[at.z], k[at.w]);
}

fn key16(rows: vec4<u32>, column: u32) -> Sixteen {
    return Sixteen(key4(rows, column), key4(rows, column + 4u), key4(rows, column + 8u), key4(rows, column + 12u));
}

// Key rows row .. row + 3; past the last one that is seen it is repeated, with a weight of 0.
fn four_rows(row: u32, last: u32) -> vec4<u32> {
    return min(vec4<u32>(row, row + 1u, row + 2u, row + 3u), vec4<u32>(last));
}

fn value4(row: u32, last: u32, column: u32) -> mat4x4<f32> {
    let at = (four_rows(row, last) * params.kv_heads * params.head_dim + column) / 4u;
    return transpose(mat4x4<f32>(v[at.x], v[at.y], v[at.z], v[at.w]));
}

fn value16(row: u32, last: u32, column: u32) -> Sixteen {
    return Sixteen(
        value4(row, last, column),
        value4(row + 4u, last, column),
        value4(row + 8u, last, column),
        value4(row + 12u, last, column),
    );
}

// A row's scores for four keys, MASKED where it does not see them.
fn scored(sums: vec4<f32>, own: vec3<u32>, keys: vec4<u32>, positions: vec4<u32>, last: u32) -> vec4<f32> {
    let seen = vec4<bool>(
        visible(own.x, positions.x),
        visible(own.x, positions.y),
        visible(own.x, positions.z),
        visible(own.x, positions.w),
    );
    let logits = sums * params.scale;
    let finished = vec4<f32>(capped(logits.x), capped(logits.y), capped(logits.z), capped(logits.w));
    return select(vec4<f32>(MASKED), finished, seen & (keys >= vec4<u32>(own.y)) & (keys < vec4<u32>(min(own.z, last + 1u))));
}

fn key_positions(keys: vec4<u32>, last: u32) -> vec4<u32> {
    let at = min(keys, vec4<u32>(last));
    return vec4<u32>(rows[at.x].y, rows[at.y].y, rows[at.z].y, rows[at.w].y);
}

fn largest(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>) -> f32 {
    let each = max(max(a, b), c);
    return max(max(each.x, each.y), max(each.z, each.w));
}

// A weight below 1e-26 is 0: it changes no f32 sum, and its products would be subnormal, which processors take a
// hundred times as long for.
fn weights4(logits: vec4<f32>, peak: f32) -> vec4<f32> {
    let below = logits - peak;
    return select(vec4<f32>(), exp(below), (below > vec4<f32>(-60.0)) & (logits > vec4<f32>(MASKED)));
}

fn keep8(at: u32, sums: Eight) {
    scores[at] = sums[0];
    scores[at + 24u] = sums[1];
    scores[at + 48u] = sums[2];
    scores[at + 72u] = sums[3];
    scores[at + 96u] = sums[4];
    scores[at + 120u] = sums[5];
    scores[at + 144u] = sums[6];
    scores[at + 168u] = sums[7];
}

fn kept8(at: u32) -> Eight {
    return Eight(
        scores[at],
        scores[at + 24u],
        scores[at + 48u],
        scores[at + 72u],
        scores[at + 96u],
        scores[at + 120u],
        scores[at + 144u],
        scores[at + 168u],
    );
}

// What `output` holds before the first block is not ours, and 0 times a NaN is a NaN.
fn earlier4(row: u32, column: u32, fresh: bool, carried: f32) -> vec4<f32> {
    return select(output[place(row, column)] * carried, vec4<f32>(), fresh);
}

fn earlier8(row: u32, column: u32, fresh: bool, at: u32) -> Eight {
    return Eight(
        earlier4(row, column, fresh, carry[at]),
        earlier4(row + 1u, column, fresh, carry[at + 8u]),
        earlier4(row + 2u, column, fresh, carry[at + 16u]),
        earlier4(row + 3u, column, fresh, carry[at + 24u]),
        earlier4(row + 4u, column, fresh, carry[at + 32u]),
        earlier4(row + 5u, column, fresh, carry[at + 40u]),
        earlier4(row + 6u, column, fresh, carry[at + 48u]),
        earlier4(row + 7u, column, fresh, carry[at + 56u]),
    );
}

fn store4(row: u32, column: u32, values: vec4<f32>) {
    if (row < step.rows) {
        output[place(row, column)] = values;
    }
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row_tiles = (step.rows + ROWS - 1u) / ROWS;
    let group = group_index(workgroup, workgroups);
    let row = group % row_tiles * ROWS;
    // The surplus of a split grid makes the last head once more.
    let head = min(group / row_tiles, params.heads - 1u);
    let column = head * params.head_dim + lane * 4u;
    let kv_column = head / (params.heads / params.kv_heads) * params.head_dim;
    let range = key_range(row, lane);
    let last = range.y - 1u;
    for (var at = lane; at < ROWS * 8u; at += 8u) {
        peaks[at] = MASKED;
        totals[at] = 0.0;
    }

    for (var block = range.x; block < range.y; block += BLOCK) {
        let keys_here = min(BLOCK, range.y - block);
        for (var tile = 0u; tile < keys_here; tile += 32u) {
            let keys = four_rows(block + tile + lane * 4u, last);
            var sums0 = Eight();
            var sums1 = Eight();
            var sums2 = Eight();
            var sums3 = Eight();
            for (var start = 0u; start < params.head_dim; start += 32u) {
                let own0 = query8(row, column + start);
                let own1 = query8(row + 8u, column + start);
                let own2 = query8(row + 16u, column + start);
                let own3 = query8(row + 24u, column + start);
                let first = key16(keys, kv_column + start);
                first_half(&sums0, own0, first);
                first_half(&sums1, own1, first);
                first_half(&sums2, own2, first);
                first_half(&sums3, own3, first);
                let second = key16(keys, kv_column + start + 16u);
                second_half(&sums0, own0, second);
                second_half(&sums1, own1, second);
                second_half(&sums2, own2, second);
                second_half(&sums3, own3, second);
            }
            let at = tile / 4u + lane;
            keep8(at, sums0);
            keep8(at + 192u, sums1);
            keep8(at + 384u, sums2);
            keep8(at + 576u, sums3);
        }

        let ends = block + BLOCK >= range.y;
        let first = block + lane * 4u;
        let keys = vec4<u32>(first, first + 1u, first + 2u, first + 3u);
        let a = key_positions(keys, last);
        let b = key_positions(keys + 32u, last);
        let c = key_positions(keys + 64u, last);
        for (var index = 0u; index < ROWS; index++) {
            let own = view(row + index);
            let at = index * 24u + lane;
            let logits_a = scored(scores[at], own, keys, a, last);
            let logits_b = scored(scores[at + 8u], own, keys + 32u, b, last);
            let logits_c = scored(scores[at + 16u], own, keys + 64u, c, last);
            let state = index * 8u + lane;
            let before = peaks[state];
            let peak = max(before, subgroupMax(largest(logits_a, logits_b, logits_c)));
            var weights_a = weights4(logits_a, peak);
            var weights_b = weights4(logits_b, peak);
            var weights_c = weights4(logits_c, peak);
            let shrink = exp(before - peak);
            let total = totals[state] * shrink + dot(weights_a + weights_b + weights_c, vec4<f32>(1.0));
            peaks[state] = peak;
            totals[state] = total;
            // The last block divides by the sum over the lanes; a row that sees nothing becomes 0.
            let sum = subgroupAdd(total);
            let share = select(1.0, select(0.0, 1.0 / sum, sum > 0.0), ends);
            carry[state] = shrink * share;
            scores[at] = weights_a * share;
            scores[at + 8u] = weights_b * share;
            scores[at + 16u] = weights_c * share;
        }

        let fresh = block == range.x;
        for (var start = 0u; start < params.head_dim; start += 32u) {
            let own_column = column + start;
            var sums0 = earlier8(row, own_column, fresh, lane);
            var sums1 = earlier8(row + 8u, own_column, fresh, lane + 64u);
            var sums2 = earlier8(row + 16u, own_column, fresh, lane + 128u);
            var sums3 = earlier8(row + 24u, own_column, fresh, lane + 192u);
            for (var tile = 0u; tile < keys_here; tile += 32u) {
                let at = tile / 4u + lane;
                let own0 = kept8(at);
                let own1 = kept8(at + 192u);
                let own2 = kept8(at + 384u);
                let own3 = kept8(at + 576u);
                let begin = block + tile;
                let near = value16(begin, last, kv_column + start + lane * 4u);
                first_half(&sums0, own0, near);
                first_half(&sums1, own1, near);
                first_half(&sums2, own2, near);
                first_half(&sums3, own3, near);
                let far = value16(begin + 16u, last, kv_column + start + lane * 4u);
                second_half(&sums0, own0, far);
                second_half(&sums1, own1, far);
                second_half(&sums2, own2, far);
                second_half(&sums3, own3, far);
            }
            store8(row, own_column, sums0);
            store8(row + 8u, own_column, sums1);
            store8(row + 16u, own_column, sums2);
            store8(row + 24u, own_column, sums3);
        }
    }
}
