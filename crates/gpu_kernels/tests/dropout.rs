//! Dropout against the CPU's generator.

#![cfg(feature = "gpu")]

mod common;

use common::{FORMATS, has_driver, noise, rounded, to_gpu, to_host};
use oomph_core::{Generator, Key};
use oomph_gpu_kernels::{DropoutMask, dropped};

#[test]
fn the_gpu_drops_what_the_cpu_drops() {
    if !has_driver() {
        return;
    }
    // Skipped words: whole blocks, vectors, single words, and more than a counter of 32 bits counts.
    for (length, skipped) in
        [(1, 0), (64, 0), (1000, 4), (1001, 4), (4103, 7), (512, 31), (100, (1 << 37) + 12)]
    {
        for dtype in FORMATS {
            let mut generator = Generator::at(Key::new(1).with_name("dropout"));
            generator.skip_uniforms(skipped);
            let position = generator.position();
            let mask =
                DropoutMask { key: position.key, word: position.word, probability: 0.3, scale: 1.0 / 0.7 };
            // Without zeros, so that a dropped element shows.
            let values: Vec<f64> = noise(length, 1).iter().map(|value| value + 2.0).collect();
            let values = rounded(&values, dtype);
            let product = |value: &f64| {
                let factor = if generator.chance(mask.probability) { 0.0 } else { mask.scale };
                f64::from(*value as f32 * factor)
            };
            let expected: Vec<f64> = values.iter().map(product).collect();
            let input = to_gpu(&values, &[length], dtype);
            let apart = dropped(input.clone(), &mask);
            assert_eq!(to_host(input.clone()), values, "held by somebody else");
            assert_eq!(to_host(apart), rounded(&expected, dtype), "{length} {skipped} {dtype:?}");
            assert_eq!(to_host(dropped(input, &mask)), rounded(&expected, dtype), "in place");
        }
    }
}
