// Shared by the kernels whose lanes hold four columns of eight rows. The including file gives store4(row, column, values),
// which drops what lies past R and N, and has broadcast.wgsl's types.
fn store8(row: u32, column: u32, sums: Eight) {
    store4(row, column, sums[0]);
    store4(row + 1u, column, sums[1]);
    store4(row + 2u, column, sums[2]);
    store4(row + 3u, column, sums[3]);
    store4(row + 4u, column, sums[4]);
    store4(row + 5u, column, sums[5]);
    store4(row + 6u, column, sums[6]);
    store4(row + 7u, column, sums[7]);
}
