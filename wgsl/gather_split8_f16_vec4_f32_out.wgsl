// gather: output[r, c] = table[id of row r, c] * scale, from up to eight sections of the table at once.
// rows u32 [R, 4]; table f16 (or f32) [V, columns], columns a multiple of 4, in sections of section_rows whole rows, the
// last one shorter; output f32 [R, columns]. One multiplication, no other rounding.
// A table of more than eight sections takes a dispatch for every eight: a dispatch writes the rows whose id lies in
// [first_row, first_row + row_count). Ten storage buffers: more than WebGPU gives by default.
//!include step.wgsl

override WEIGHT_IS_F16: bool = true;

struct Params {
    scale: f32,
    columns: u32,
    first_row: u32,
    row_count: u32,
    section_rows: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> table0: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> table1: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> table2: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read> table3: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read> table4: array<vec2<u32>>;
@group(0) @binding(8) var<storage, read> table5: array<vec2<u32>>;
@group(0) @binding(9) var<storage, read> table6: array<vec2<u32>>;
@group(0) @binding(10) var<storage, read> table7: array<vec2<u32>>;
@group(0) @binding(11) var<storage, read_write> output: array<vec4<f32>>;

// Four values: in f16 the first two words are all.
fn values(first: vec2<u32>, second: vec2<u32>) -> vec4<f32> {
    if (WEIGHT_IS_F16) {
        return vec4<f32>(unpack2x16float(first.x), unpack2x16float(first.y));
    }
    return vec4<f32>(bitcast<vec2<f32>>(first), bitcast<vec2<f32>>(second));
}

fn table_four(section: u32, index: u32) -> vec4<f32> {
    let extra = select(1u, 0u, WEIGHT_IS_F16);
    let at = index * (1u + extra);
    switch section {
        case 0u: { return values(table0[at], table0[at + extra]); }
        case 1u: { return values(table1[at], table1[at + extra]); }
        case 2u: { return values(table2[at], table2[at + extra]); }
        case 3u: { return values(table3[at], table3[at + extra]); }
        case 4u: { return values(table4[at], table4[at + extra]); }
        case 5u: { return values(table5[at], table5[at + extra]); }
        case 6u: { return values(table6[at], table6[at + extra]); }
        default: { return values(table7[at], table7[at + extra]); }
    }
}

@compute @workgroup_size(64)
fn gather_vec4_f32_out(
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
        let at = line % params.section_rows * fours + index % fours;
        output[index] = table_four(line / params.section_rows, at) * params.scale;
    }
}
