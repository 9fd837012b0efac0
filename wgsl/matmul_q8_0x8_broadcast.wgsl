// matmul: output[r, n] = sum over k of input[r, k] * weight[n, k], on software GPU adapters with subgroups of 8.
// input f32 [R, K]; weight Q8_0x8 [N, K], staying packed; output f32 [R, N]. Dequantised, multiplied and
// summed in f32.
//!include step.wgsl
//!include broadcast_matmul.wgsl
//!include broadcast_inputs.wgsl
//!include q8_0x8_columns.wgsl

// Of the row whose blocks' quants lie at `at`.
fn column_sum(at: u32, inputs: Inputs) -> f32 {
    return product(inputs.first, sixteen_at(at)) + product(inputs.second, sixteen_at(at + 1u));
}

// One row x 64 columns a workgroup, lane l the columns 8 l .. 8 l + 7, over steps of 32 along K.
@compute @workgroup_size(8)
fn main_one(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles = (params.row_count + 63u) / 64u;
    let group = group_index(workgroup, workgroups);
    let row = group / tiles;
    let column = group % tiles * 64u + lane * 8u;
    // Past the end the last eight is repeated: what comes of it is not stored.
    var at = eights_at(min(column, params.row_count - 1u) / 8u, params.inner, 0u);
    var near = vec4<f32>();
    var far = vec4<f32>();
    for (var start = 0u; start < bound(params.inner); start += 32u) {
        let inputs = inputs_at(row, start, lane);
        let scales = weight[at];
        near += four_f16(scales.x) * vec4<f32>(
            column_sum(at + 1u, inputs), column_sum(at + 3u, inputs), column_sum(at + 5u, inputs), column_sum(at + 7u, inputs)
        );
        far += four_f16(scales.y) * vec4<f32>(
            column_sum(at + 9u, inputs), column_sum(at + 11u, inputs), column_sum(at + 13u, inputs), column_sum(at + 15u, inputs)
        );
        at += 17u;
    }
    store4(row, column, near);
    store4(row, column + 4u, far);
}
