// Shared by the cached attention kernels for many rows: a workgroup makes a tile of up to ROWS rows of one slot, one head,
// over tiles of KEYS positions; a row has LANES threads, each with the fours `lane + LANES i` of the head's values.
// The including file gives ROWS, LANES and KEYS (at most LANES); head_dim is at most 32 LANES.
//!include cached.wgsl

const THREADS = ROWS * LANES;
const FOURS = LANES * 8u;
var<workgroup> tile: array<vec4<f32>, KEYS * FOURS>;
var<workgroup> partial: array<f32, THREADS * KEYS>;
var<workgroup> scores: array<f32, ROWS * KEYS>;

alias Eight = array<vec4<f32>, 8>;

struct RowTile {
    slot: u32,
    first: u32,
    count: u32,
}

// The tile of this number, the slots' tiles being numbered one slot after the other; of 0 rows past the last one.
fn row_tile(number: u32) -> RowTile {
    var left = number;
    for (var slot = 0u; slot < step.sequences; slot++) {
        var span = vec2<u32>(slot, 1u);
        if (params.rows_are_slots == 0u) {
            span = slots[slot].xy;
        }
        let tiles = (span.y + ROWS - 1u) / ROWS;
        if (left < tiles) {
            return RowTile(slot, span.x + left * ROWS, min(ROWS, span.y - left * ROWS));
        }
        left -= tiles;
    }
    return RowTile();
}

fn query_four(asked: u32, four: u32) -> vec4<f32> {
    if (four < params.head_dim / 4u) {
        return vec4<f32>(q[asked + four]) * params.scale;
    }
    return vec4<f32>();
}

fn store_four(own: u32, four: u32, values: vec4<f32>) {
    if (four < params.head_dim / 4u) {
        output[own + four] = vec4<Activation>(values);
    }
}

// Keys, or `offset` behind them values, of the positions start .. start + KEYS - 1, zeros from `end` on.
fn load_tile(thread: u32, place: u32, start: u32, end: u32, kv_head: u32, offset: u32) {
    let ring = start % params.capacity;
    for (var index = thread; index < KEYS * FOURS; index += THREADS) {
        let key = index / FOURS;
        let four = index % FOURS;
        var values = vec4<f32>();
        if (start + key < end && four < params.head_dim / 4u) {
            values = state_four(key_at(place, ring + key, kv_head) + offset + four);
        }
        tile[index] = values;
    }
}

fn attend(group: u32, thread: u32) {
    let head = group % params.heads;
    let found = row_tile(group / params.heads);
    if (found.count == 0u) {
        return;
    }
    let place = slots[found.slot].w;
    let kv_head = key_head(head);
    let first = span(found.first).x;
    let end = span(found.first + found.count - 1u).y + 1u;

    let line = thread / LANES;
    let lane = thread % LANES;
    let is_row = line < found.count;
    // Threads without a row repeat the last one's work, and store nothing.
    let row = found.first + min(line, found.count - 1u);
    let seen = span(row);
    let own = (row * params.heads + head) * (params.head_dim / 4u);
    let asked = row * (params.q_columns / 4u) + head * (params.head_dim / 4u);

    let query = Eight(
        query_four(asked, lane), query_four(asked, lane + LANES),
        query_four(asked, lane + LANES * 2u), query_four(asked, lane + LANES * 3u),
        query_four(asked, lane + LANES * 4u), query_four(asked, lane + LANES * 5u),
        query_four(asked, lane + LANES * 6u), query_four(asked, lane + LANES * 7u),
    );
    var sums = Eight();
    var peak = MASKED;
    var total = 0.0;

    for (var start = first; start < end; start += KEYS) {
        load_tile(thread, place, start, end, kv_head, 0u);
        workgroupBarrier();
        for (var j = 0u; j < KEYS; j++) {
            let at = j * FOURS + lane;
            partial[(line * KEYS + j) * LANES + lane] = dot(query[0], tile[at])
                + dot(query[1], tile[at + LANES])
                + dot(query[2], tile[at + LANES * 2u])
                + dot(query[3], tile[at + LANES * 3u])
                + dot(query[4], tile[at + LANES * 4u])
                + dot(query[5], tile[at + LANES * 5u])
                + dot(query[6], tile[at + LANES * 6u])
                + dot(query[7], tile[at + LANES * 7u]);
        }
        workgroupBarrier();

        // The first threads of a row finish a score each; then the tile of keys makes room for that of values.
        if (lane < KEYS) {
            var score = 0.0;
            for (var i = 0u; i < LANES; i += 4u) {
                let at = (line * KEYS + lane) * LANES + i;
                score += partial[at] + partial[at + 1u] + partial[at + 2u] + partial[at + 3u];
            }
            let key = start + lane;
            scores[line * KEYS + lane] = select(MASKED, capped(score), key >= seen.x && key <= seen.y);
        }
        load_tile(thread, place, start, end, kv_head, value_offset());
        workgroupBarrier();

        var higher = peak;
        for (var j = 0u; j < KEYS; j++) {
            higher = max(higher, scores[line * KEYS + j]);
        }
        let shrink = exp(peak - higher);
        peak = higher;
        total *= shrink;
        sums[0] *= shrink;
        sums[1] *= shrink;
        sums[2] *= shrink;
        sums[3] *= shrink;
        sums[4] *= shrink;
        sums[5] *= shrink;
        sums[6] *= shrink;
        sums[7] *= shrink;
        for (var j = 0u; j < KEYS; j++) {
            let score = scores[line * KEYS + j];
            let weight = select(0.0, exp(score - peak), score > MASKED);
            let at = j * FOURS + lane;
            total += weight;
            sums[0] += weight * tile[at];
            sums[1] += weight * tile[at + LANES];
            sums[2] += weight * tile[at + LANES * 2u];
            sums[3] += weight * tile[at + LANES * 3u];
            sums[4] += weight * tile[at + LANES * 4u];
            sums[5] += weight * tile[at + LANES * 5u];
            sums[6] += weight * tile[at + LANES * 6u];
            sums[7] += weight * tile[at + LANES * 7u];
        }
        workgroupBarrier();
    }

    if (is_row) {
        store_four(own, lane, sums[0] / total);
        store_four(own, lane + LANES, sums[1] / total);
        store_four(own, lane + LANES * 2u, sums[2] / total);
        store_four(own, lane + LANES * 3u, sums[3] / total);
        store_four(own, lane + LANES * 4u, sums[4] / total);
        store_four(own, lane + LANES * 5u, sums[5] / total);
        store_four(own, lane + LANES * 6u, sums[6] / total);
        store_four(own, lane + LANES * 7u, sums[7] / total);
    }
}
