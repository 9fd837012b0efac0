// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words of a counter and key.
//!include wide.wgsl

fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var words = counter;
    var keys = key;
    for (var round = 0u; round < 10u; round++) {
        let first = product(0xd2511f53u, words.x);
        let second = product(0xcd9e8d57u, words.z);
        words = vec4<u32>(second.y ^ words.y ^ keys.x, second.x, first.y ^ words.w ^ keys.y, first.x);
        keys += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// -log(-log u), u = (word + 1/2) / 2^32. Where u is near 1, by the series of log(1 - x): there the noise is greatest.
fn noise(word: u32) -> f32 {
    let x = (f32(~word) + 0.5) / 4294967296.0;
    let series = x * (1.0 + x * (0.5 + x * (1.0 / 3.0 + x * (0.25 + x * (0.2 + x / 6.0)))));
    let u = (f32(word) + 0.5) / 4294967296.0;
    return -log(select(-log(u), series, x < 0.125));
}
