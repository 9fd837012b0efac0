// advance: the next step's rows: each row's token becomes the one sampled for its slot, its position one more.
// sampled u32 [S, 1]; output: the rows, u32 [S, 4], one a slot, changed in place. What stands for no token is past the
// vocabulary, and becomes token 0, so that a step that nobody will look at stays within its tables.
//!include each_row.wgsl

struct Params {
    vocabulary: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> sampled: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<u32>>;

fn take_row(row: u32) {
    let line = output[row];
    let token = sampled[line.z];
    output[row] = vec4<u32>(select(0u, token, token < params.vocabulary), line.y + 1u, line.zw);
}
