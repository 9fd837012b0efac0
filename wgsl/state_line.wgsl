// Shared by kernels that read or write a state by position. The including file declares `slots` and params.capacity.

// The line of a row, (token, position, slot, 0), in a state of so many positions a place.
fn state_line(row: vec4<u32>) -> u32 {
    return slots[row.z].w * params.capacity + row.y % params.capacity;
}
