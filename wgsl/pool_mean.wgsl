// pool: output[s, c] = mean over the rows of slot s of input[row, c].
// slots u32 [S, 4] (first row, row count); input f32 [T, columns]; output f32 [S, columns]. f32 sum in row order.
//!include each_slot.wgsl

fn slot_value(slot: vec2<u32>, column: u32) -> f32 {
    var sum = 0.0;
    for (var row = slot.x; row < slot.x + slot.y; row++) {
        sum += input[row * params.columns + column];
    }
    return sum / f32(slot.y);
}
