// attention: output[t, h] = softmax over visible keys j of (scale * q[t, h] . k[j, h / group]) times v[j, h / group]
// rows u32 [T, 4] (id, position, slot); slots u32 [S, 4] (first key row, key count); q, output f32 [T, heads * head_dim];
// k, v f32 [T, kv_heads * head_dim]; head_dim <= 256. A key is visible inside the row's own slot, and, p being positions:
//   not causal: window 0 or |pq - pk| <= window / 2;   causal: pk <= pq, and window 0 or pk > pq - window
// softcap c > 0: score = c tanh(score / c). Softmax online over tiles of 8 keys, all in f32.
// A workgroup makes 16 rows of one head; a row has 8 threads, each with the vec4s `lane + 8 i` of the head's values.
//!include step.wgsl
//!include visible.wgsl

@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> q: array<f32>;
@group(0) @binding(5) var<storage, read> k: array<f32>;
@group(0) @binding(6) var<storage, read> v: array<f32>;
@group(0) @binding(7) var<storage, read_write> output: array<f32>;

const ROWS = 16u;
const LANES = 8u;
const KEYS = 8u;
const THREADS = ROWS * LANES;
const FOURS = 64u;
const MASKED = -3.0e38;

var<workgroup> tile: array<vec4<f32>, KEYS * FOURS>;
var<workgroup> partial: array<f32, ROWS * KEYS * LANES>;
var<workgroup> scores: array<f32, ROWS * KEYS>;
// Bounds over the 16 rows: slots, positions, then the key rows any of them may see.
var<workgroup> lowest: array<atomic<u32>, 4>;
var<workgroup> highest: array<atomic<u32>, 4>;
var<workgroup> key_range: vec2<u32>;

fn query4(base: u32, dim: u32) -> vec4<f32> {
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (dim + i < params.head_dim) { values[i] = q[base + dim + i]; }
    }
    return values;
}

fn key4(base: u32, dim: u32) -> vec4<f32> {
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (dim + i < params.head_dim) { values[i] = k[base + dim + i]; }
    }
    return values;
}

fn value4(base: u32, dim: u32) -> vec4<f32> {
    var values = vec4<f32>();
    for (var i = 0u; i < 4u; i++) {
        if (dim + i < params.head_dim) { values[i] = v[base + dim + i]; }
    }
    return values;
}

fn store4(base: u32, dim: u32, values: vec4<f32>) {
    for (var i = 0u; i < 4u; i++) {
        if (dim + i < params.head_dim) { output[base + dim + i] = values[i]; }
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row_tiles = (step.rows + ROWS - 1u) / ROWS;
    let group = group_index(workgroup, workgroups);
    let head = group / row_tiles;
    if (head >= params.heads) {
        return;
    }
    let first_row = group % row_tiles * ROWS;
    let lane = thread % LANES;
    let row = first_row + thread / LANES;
    let is_row = row < step.rows;
    let width = params.kv_heads * params.head_dim;
    let kv_base = head / (params.heads / params.kv_heads) * params.head_dim;

    var position = 0u;
    var keys = vec2<u32>();
    if (thread < 4u) {
        atomicStore(&lowest[thread], 0xffffffffu);
        atomicStore(&highest[thread], 0u);
    }
    workgroupBarrier();
    if (is_row) {
        position = rows[row].y;
        keys = slots[rows[row].z].xy;
        if (lane == 0u) {
            atomicMin(&lowest[0], keys.x);
            atomicMax(&highest[0], keys.x + keys.y);
            atomicMin(&lowest[1], position);
            atomicMax(&highest[1], position);
        }
    }
    workgroupBarrier();
    // Tiles out of every row's window are skipped: find the first and last key row that may be seen at all.
    let first_position = atomicLoad(&lowest[1]);
    let last_position = atomicLoad(&highest[1]);
    for (var key = atomicLoad(&lowest[0]) + thread; key < atomicLoad(&highest[0]); key += THREADS) {
        if (may_be_visible(first_position, last_position, rows[key].y)) {
            atomicMin(&lowest[2], key);
            atomicMax(&highest[2], key + 1u);
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        key_range = vec2<u32>(atomicLoad(&lowest[2]), atomicLoad(&highest[2]));
    }
    let range = workgroupUniformLoad(&key_range);

    let q_base = (row * params.heads + head) * params.head_dim;
    let dim = lane * 4u;
    var q0 = vec4<f32>();
    var q1 = vec4<f32>();
    var q2 = vec4<f32>();
    var q3 = vec4<f32>();
    var q4 = vec4<f32>();
    var q5 = vec4<f32>();
    var q6 = vec4<f32>();
    var q7 = vec4<f32>();
    if (is_row) {
        q0 = query4(q_base, dim);
        q1 = query4(q_base, dim + 32u);
        q2 = query4(q_base, dim + 64u);
        q3 = query4(q_base, dim + 96u);
        q4 = query4(q_base, dim + 128u);
        q5 = query4(q_base, dim + 160u);
        q6 = query4(q_base, dim + 192u);
        q7 = query4(q_base, dim + 224u);
    }
    var o0 = vec4<f32>();
    var o1 = vec4<f32>();
    var o2 = vec4<f32>();
    var o3 = vec4<f32>();
    var o4 = vec4<f32>();
    var o5 = vec4<f32>();
    var o6 = vec4<f32>();
    var o7 = vec4<f32>();
    var most = MASKED;
    var total = 0.0;

    for (var start = range.x; start < range.y; start += KEYS) {
        for (var index = thread; index < KEYS * FOURS; index += THREADS) {
            let key = start + index / FOURS;
            var four = vec4<f32>();
            if (key < range.y) {
                four = key4(key * width + kv_base, index % FOURS * 4u);
            }
            tile[index] = four;
        }
        workgroupBarrier();

        for (var j = 0u; j < KEYS; j++) {
            let at = j * FOURS + lane;
            let sum = dot(q0, tile[at]) + dot(q1, tile[at + 8u]) + dot(q2, tile[at + 16u]) + dot(q3, tile[at + 24u])
                + dot(q4, tile[at + 32u]) + dot(q5, tile[at + 40u]) + dot(q6, tile[at + 48u]) + dot(q7, tile[at + 56u]);
            partial[(thread / LANES * KEYS + j) * LANES + lane] = sum;
        }
        workgroupBarrier();

        // Thread `lane` of a row finishes the score of key `lane`; then the keys' tile makes room for the values'.
        var score = 0.0;
        for (var i = 0u; i < LANES; i++) {
            score += partial[thread * LANES + i];
        }
        let key = start + lane;
        var seen = false;
        if (key < range.y && key >= keys.x && key < keys.x + keys.y) {
            seen = visible(position, rows[key].y);
        }
        scores[thread] = select(MASKED, capped(score * params.scale), seen);
        for (var index = thread; index < KEYS * FOURS; index += THREADS) {
            let value = start + index / FOURS;
            var four = vec4<f32>();
            if (value < range.y) {
                four = value4(value * width + kv_base, index % FOURS * 4u);
            }
            tile[index] = four;
        }
        workgroupBarrier();

        var peak = most;
        for (var j = 0u; j < KEYS; j++) {
            peak = max(peak, scores[thread / LANES * KEYS + j]);
        }
        let shrink = exp(most - peak);
        most = peak;
        total *= shrink;
        o0 *= shrink;
        o1 *= shrink;
        o2 *= shrink;
        o3 *= shrink;
        o4 *= shrink;
        o5 *= shrink;
        o6 *= shrink;
        o7 *= shrink;
        for (var j = 0u; j < KEYS; j++) {
            let logit = scores[thread / LANES * KEYS + j];
            let weight = select(0.0, exp(logit - peak), logit > MASKED);
            let at = j * FOURS + lane;
            total += weight;
            o0 += weight * tile[at];
            o1 += weight * tile[at + 8u];
            o2 += weight * tile[at + 16u];
            o3 += weight * tile[at + 24u];
            o4 += weight * tile[at + 32u];
            o5 += weight * tile[at + 40u];
            o6 += weight * tile[at + 48u];
            o7 += weight * tile[at + 56u];
        }
        workgroupBarrier();
    }

    if (is_row) {
        let share = select(0.0, 1.0 / total, total > 0.0);
        store4(q_base, dim, o0 * share);
        store4(q_base, dim + 32u, o1 * share);
        store4(q_base, dim + 64u, o2 * share);
        store4(q_base, dim + 96u, o3 * share);
        store4(q_base, dim + 128u, o4 * share);
        store4(q_base, dim + 160u, o5 * share);
        store4(q_base, dim + 192u, o6 * share);
        store4(q_base, dim + 224u, o7 * share);
    }
}
