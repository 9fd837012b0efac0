// Shared by the attention kernels: their parameters, which keys a row sees, the soft cap. Positions are in tokens.
//!include score_cap.wgsl

struct Params {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    scale: f32,
    window: u32,
    causal: u32,
    softcap: f32,
}

@group(0) @binding(1) var<uniform> params: Params;

// Whether the row at `query` sees the key at `key` of its own slot.
fn visible(query: u32, key: u32) -> bool {
    return may_be_visible(query, query, key);
}

// Whether a row at some position of first .. last sees the key. Sums only: positions are unsigned.
fn may_be_visible(first: u32, last: u32, key: u32) -> bool {
    let windowed = params.window > 0u;
    if (params.causal != 0u) {
        return key <= last && (!windowed || key + params.window > first);
    }
    let reach = params.window / 2u;
    return !windowed || (key <= last + reach && first <= key + reach);
}
