// Shared by the gathers from packed tables: a thread expands the four values of a chunk's part.
// A table above the binding limit is bound in sections of whole rows, one dispatch each: a dispatch writes the
// rows whose id lies in [first_row, first_row + row_count). Ids outside the table are refused by the caller.

struct Params {
    scale: f32,
    columns: u32,
    first_row: u32,
    row_count: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;

fn weight_at(index: u32) -> u32 {
    return weight[index];
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let fours = params.columns / 4u;
    let index = group_index(workgroup, workgroups) * 64u + thread;
    if (index >= step.rows * fours) {
        return;
    }
    // A smaller id wraps to a large number, so one comparison tests both ends.
    let line = rows[index / fours].x - params.first_row;
    if (line < params.row_count) {
        let four = index % fours;
        let chunk = chunk_at(line, params.columns / 32u, four / 8u);
        output[index] = chunk_four(chunk, four % 8u) * params.scale;
    }
}
