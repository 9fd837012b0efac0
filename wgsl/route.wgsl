// route: for each row its `chosen` experts of greatest score, of equal ones the lower first, and what each weighs:
// softmax(input[r]), divided by the sum over the chosen ones if params.normalize is 1, times weight[expert] if there is one.
// input f32 [R, columns], read as bits, a score for each expert; weight f16 or f32 [columns]; output u32 [R, chosen, 2]: an
// expert and the bits of its f32 weight, which is NaN where a score of the row is. chosen is at most 256 and at most
// columns. One workgroup per row; comparisons of whole numbers only, sums in f32.
//!include step.wgsl
//!include below.wgsl
//!include stronger.wgsl
//!include workgroup_sum.wgsl
//!include dense_value.wgsl

override HAS_SCALE: bool = false;

struct Params {
    columns: u32,
    chosen: u32,
    normalize: u32,
}

@group(0) @binding(1) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> input: array<u32>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<vec2<u32>>;

const QUIET_NAN = 0x7fc00000u;

// A score's part of softmax, before it is divided.
fn share(order: u32, best: u32) -> f32 {
    return exp(below(order, best, 1.0));
}

fn scale_of(expert: u32) -> f32 {
    if (HAS_SCALE) {
        return dense_value(expert);
    }
    return 1.0;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group_index(workgroup, workgroups);
    if (row >= step.rows) {
        return;
    }
    let base = row * params.columns;

    // Thread i keeps the expert of rank i.
    var best = vec2<u32>();
    var last = vec2<u32>();
    var kept = vec2<u32>();
    for (var rank = 0u; rank < params.chosen; rank++) {
        var strong = vec2<u32>();
        for (var id = thread; id < params.columns; id += THREADS) {
            let next = vec2<u32>(order(input[base + id]), id);
            if (rank == 0u || beats(last, next)) {
                strong = stronger(strong, next);
            }
        }
        last = strongest(thread, strong);
        if (rank == 0u) {
            best = last;
        }
        if (thread == rank) {
            kept = last;
        }
    }

    let own = select(0.0, share(kept.x, best.x), thread < params.chosen);
    var sum = own;
    if (params.normalize == 0u) {
        sum = 0.0;
        for (var id = thread; id < params.columns; id += THREADS) {
            sum += share(order(input[base + id]), best.x);
        }
    }
    let total = workgroup_sum(thread, sum);
    if (thread < params.chosen) {
        let bits = bitcast<u32>(own / total * scale_of(kept.y));
        output[row * params.chosen + thread] = vec2<u32>(kept.y, select(bits, QUIET_NAN, best.x == NOT_A_NUMBER));
    }
}
