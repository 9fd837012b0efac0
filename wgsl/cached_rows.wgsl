// Shared by all attention kernels that read keys and values from a state: output[r, h] = softmax over the positions seen
// of (scale * q[r, h] . k[position, h / group]) times v[position, h / group], all in f32.
// A row at position p sees the positions max(0, p - window + 1) .. p of its place, all of 0 .. p for a window of 0; on a canvas
// it sees what the first row of its slot sees, and all rows of its slot. Positions lie in the state's rows place * capacity + position % capacity, f16 or f32 [K of all heads | V of all heads].
// rows u32 [R, 4] (second column: position, third: slot); slots u32 [S, 4] (first row, row count, -, place);
// q [R, q_columns], of which the first heads * head_dim, and output [R, heads * head_dim], of the type that the including
// file gives as Activation; head_dim a multiple of 4: all is read by fours.
//!include score_cap.wgsl

override STATE_IS_F16: bool = true;

struct Params {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    scale: f32,
    capacity: u32,
    window: u32,
    softcap: f32,
    rows_are_slots: u32,
    q_columns: u32,
    eps: f32,
    offset: f32,
    canvas: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> q: array<vec4<Activation>>;
@group(0) @binding(6) var<storage, read_write> output: array<vec4<Activation>>;

const MASKED = -3.0e38;

// The first and the last position that a row sees.
fn span(row: u32) -> vec2<u32> {
    var first = rows[row].y;
    var last = first;
    if (params.canvas != 0u) {
        let slot = slots[rows[row].z];
        first = rows[slot.x].y;
        last = first + slot.y - 1u;
    }
    return vec2<u32>(select(0u, first + 1u - params.window, params.window > 0u && first >= params.window), last);
}

// The key head of a query head.
fn key_head(head: u32) -> u32 {
    return head / (params.heads / params.kv_heads);
}
