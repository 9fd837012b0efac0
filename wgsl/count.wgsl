// count: one more for the sampled token in the counts of each slot's place.
// slots u32 [S, 4] (fourth column: place); sampled u32 [S, 1]; output: the counts, u32 [places, vocabulary], changed in
// place. What stands for no token is past the vocabulary, and counts nothing. One thread per slot.
//!include each_row.wgsl

struct Params {
    vocabulary: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> sampled: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;

fn take_row(slot: u32) {
    if (sampled[slot] < params.vocabulary) {
        output[slots[slot].w * params.vocabulary + sampled[slot]] += 1u;
    }
}
