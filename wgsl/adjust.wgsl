// adjust: output = logits with the penalties, the bias and the mask that the slot's line of `sampling` switches on.
// sampling u32 [S, 16]; slots u32 [S, 4] (fourth column: place); logits f32 [S, columns]; of the slot's place:
// counts u32 [places, columns] (bit 31: in the prompt; the rest: times generated), bias f32 [places, columns],
// mask u32 [places, columns / 32 rounded up] (bit 1: allowed); output f32 [S, columns], written as bits.
// A token the mask or a bias of -inf forbids becomes -inf. Four tokens a thread, 256 apart.
//!include step.wgsl

struct Params {
    columns: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> sampling: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> slots: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> logits: array<u32>;
@group(0) @binding(5) var<storage, read> counts: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<u32>;
@group(0) @binding(7) var<storage, read> mask: array<u32>;
@group(0) @binding(8) var<storage, read_write> output: array<u32>;

const PENALTIES = 1u;
const BIAS = 2u;
const MASK = 4u;
const FORBIDDEN = 0xff800000u; // the bits of -inf, which WGSL has no value for

fn penalized(bits: u32, seen: u32, presence: f32, frequency: f32, repetition: f32) -> u32 {
    if (seen == 0u || bits == FORBIDDEN) {
        return bits;
    }
    let logit = bitcast<f32>(bits);
    let repeated = select(logit * repetition, logit / repetition, logit > 0.0);
    let generated = seen & 0x7fffffffu;
    return bitcast<u32>(repeated - select(0.0, presence, generated > 0u) - frequency * f32(generated));
}

fn biased(bits: u32, addend: u32) -> u32 {
    let sum = bitcast<u32>(bitcast<f32>(bits) + bitcast<f32>(addend));
    return select(sum, FORBIDDEN, addend == FORBIDDEN || bits == FORBIDDEN);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tiles = (params.columns + 1023u) / 1024u;
    let group = group_index(workgroup, workgroups);
    let slot = group / tiles;
    if (slot >= step.rows) {
        return;
    }
    let place = slots[slot].w;
    let numbers = bitcast<vec4<f32>>(sampling[slot * 4u + 1u]); // presence, frequency, repetition, a word of the seed
    let flags = sampling[slot * 4u + 2u].y;
    for (var part = 0u; part < 4u; part++) {
        let id = group % tiles * 1024u + part * 256u + thread;
        if (id < params.columns) {
            let at = place * params.columns + id;
            var bits = logits[slot * params.columns + id];
            if ((flags & PENALTIES) != 0u) {
                bits = penalized(bits, counts[at], numbers.x, numbers.y, numbers.z);
            }
            if ((flags & BIAS) != 0u) {
                bits = biased(bits, bias[at]);
            }
            if ((flags & MASK) != 0u) {
                let word = mask[place * ((params.columns + 31u) / 32u) + id / 32u];
                bits = select(FORBIDDEN, bits, (word >> (id % 32u) & 1u) != 0u);
            }
            output[slot * params.columns + id] = bits;
        }
    }
}
