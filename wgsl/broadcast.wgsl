// Shared by the broadcast kernels, which are made for software GPU adapters: there a load costs as much as twenty
// multiply-adds, and workgroup memory and barriers gain nothing. A workgroup is one subgroup of 8 lanes, which hand round
// what they hold with subgroupBroadcast. All is written out, since that compiler neither unrolls loops nor keeps arrays
// with changing indices in registers.

alias Eight = array<vec4<f32>, 8>;

// Weights at 16 inner indices: a matrix for each four of them.
alias Sixteen = array<mat4x4<f32>, 4>;

// A number that bounds a loop, K most of all. Left in the uniform, Mesa writes it into the kernel and optimises that
// anew whenever the kernel is bound, for tens of milliseconds; it does not follow one through a subgroup.
fn bound(value: u32) -> u32 {
    return subgroupBroadcast(value, 0u);
}
