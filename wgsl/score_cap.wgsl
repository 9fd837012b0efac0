// Shared by the attention kernels: the soft cap of scores, params.softcap.
//!include soft_cap.wgsl

// Whether softcap is above 0. A constant, since some drivers compute both sides of a branch.
override HAS_SOFTCAP: bool = false;

fn capped(score: f32) -> f32 {
    if (HAS_SOFTCAP) {
        return soft_cap(score, params.softcap);
    }
    return score;
}
