// Shared by the kernels for few rows with packed weights: a lane takes every so-manyth chunk of 32 values. K is a
// multiple of 32. 16 lanes make a column, a workgroup 16 columns.
//!include gemv.wgsl

@group(0) @binding(3) var<storage, read> weight: array<u32>;

fn weight_at(index: u32) -> u32 {
    return weight[index];
}

const LANES = 16u;

fn partial_sum(row: u32, column: u32, lane: u32, lanes: u32) -> f32 {
    let chunks = params.inner / 32u;
    var sum = 0.0;
    for (var index = lane; index < chunks; index += lanes) {
        let chunk = chunk_at(column, chunks, index);
        let at = (row * chunks + index) * 8u;
        for (var i = 0u; i < 8u; i++) {
            sum += dot(input[at + i], chunk_four(chunk, i));
        }
    }
    return sum;
}
