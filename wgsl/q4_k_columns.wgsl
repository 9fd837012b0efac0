// Shared by the broadcast matmuls (broadcast_columns.wgsl) with Q4_K weights [N, K]: a step is a sub-block.
//!include q4_k_block.wgsl

@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;

// The nibbles, with those of another step beside them, and scale and offset.
struct Run {
    first: vec4<u32>,
    second: vec4<u32>,
    shift: u32,
    scale: vec2<f32>,
}

fn run_at(row: u32, start: u32) -> Run {
    let block = (row * ((params.inner + 255u) / 256u) + start / 256u) * (Q4_K_WORDS / 4u);
    let j = start / 32u % 8u;
    let at = block + 1u + j / 2u * 2u;
    return Run(weight[at], weight[at + 1u], j % 2u * 4u, q4_k_scale(weight[block], j));
}

fn quants_of(run: Run, half: u32) -> Four {
    let words = select(run.first, run.second, half == 1u);
    return Four(
        q4_k_four(words.x, run.shift), q4_k_four(words.y, run.shift),
        q4_k_four(words.z, run.shift), q4_k_four(words.w, run.shift),
    );
}

fn scale_of(run: Run, half: u32) -> vec2<f32> {
    return run.scale;
}
