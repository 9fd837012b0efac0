// accept: the canvas of the next step: a row's sample where it is accepted, a random token elsewhere.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (first row, row count, _, place); sampling u32
// [S, 16]; picks u32 [T, 4] (pick.wgsl); noise, a state, u32 [places * capacity, 2] (second word: the random token); output, a
// state, u32 [places * capacity, 4], of which only these lines change: the token, whether it was accepted, the likeliest
// token, bits of the entropy.
// Accepted is a row if the entropies of its slot's rows below its own, of equal ones of those before it, sum to at most the
// bound. Entropies are not negative, so that their bits sort as they do. A thread a row; sums in f32.
//!include each_row.wgsl
//!include state_line.wgsl

struct Params {
    capacity: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> picks: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> noise: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> output: array<vec4<u32>>;

fn take_row(row: u32) {
    let own = picks[row];
    let slot = slots[rows[row].z];
    var before = 0.0;
    for (var other = slot.x; other < slot.x + slot.y; other++) {
        let bits = picks[other].z;
        let surer = bits < own.z || (bits == own.z && other < row);
        before += select(0.0, bitcast<f32>(bits), surer);
    }
    let accepted = before <= bitcast<f32>(sampling[rows[row].z * 4u + 2u].w);
    let line = state_line(rows[row]);
    output[line] = vec4<u32>(select(noise[line].y, own.x, accepted), u32(accepted), own.y, own.z);
}
