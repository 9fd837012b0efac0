// store: output[place of the row * capacity + position % capacity] = [k | v], for each row.
// rows u32 [T, 4] (second column: position, third: slot); slots u32 [S, 4] (fourth column: place); k f32 [T, k_columns] and
// v f32 [T, v_columns], of which `columns` from k_first and v_first on are taken, heads of head_dim values; output, a state,
// f16 or f32 [places * capacity, 2 * columns], of which only these rows change.
// HAS_ROTATION: k is turned first, as rope.wgsl does: table f32 [positions, head_dim / 2, 2] (cos, sin); HAS_KEY_NORM: and before
// that its heads are normed, k * rsqrt(mean(k^2) + eps) * (offset + weight), weight f16 or f32 [head_dim].
// HAS_VALUE_NORM: each head of v is divided by its root mean square first, v * rsqrt(mean(v^2) + eps).
//!include activation_f32.wgsl
//!include stored_heads.wgsl
