// last_rows: output[s] = input[the last row of slot s].
// slots u32 [S, 4] (first row, row count); input f32 [T, columns]; output f32 [S, columns].
//!include each_slot.wgsl

fn slot_value(slot: vec2<u32>, column: u32) -> f32 {
    return input[(slot.x + slot.y - 1u) * params.columns + column];
}
