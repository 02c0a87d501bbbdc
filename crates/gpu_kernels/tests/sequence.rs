//! Sequences in parts, and casts.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{FORMATS, has_driver, noise, rounded, to_gpu, to_host};
use oomph_gpu_kernels::{cast, place_steps, zeros};

#[test]
fn zeros_are_zeros() {
    if !has_driver() {
        return;
    }
    let like = to_gpu(&[1.0], &[1], DType::F32);
    for dtype in FORMATS.into_iter().chain([DType::I32]) {
        for shape in [vec![1], vec![3, 7], vec![4, 5, 8]] {
            let found = zeros(&shape, dtype, &like);
            assert_eq!(found.dtype, dtype);
            assert_eq!(to_host(found), vec![0.0; shape.iter().product()], "{shape:?} {dtype:?}");
        }
    }
}

#[test]
fn steps_are_placed_in_the_format_of_the_whole() {
    if !has_driver() {
        return;
    }
    for ([batch, steps, features], count, at) in
        [([1, 1, 1], 1, 0), ([2, 5, 3], 2, 3), ([3, 4, 8], 4, 0), ([3, 7, 16], 3, 2), ([2, 6, 10], 0, 6)]
    {
        for (index, dtype) in FORMATS.into_iter().enumerate() {
            let of_part = FORMATS[(index + batch) % FORMATS.len()];
            let whole = rounded(&noise(batch * steps * features, 1), dtype);
            let part = rounded(&noise(batch * count * features, 2), of_part);
            let mut expected = whole.clone();
            let placed = rounded(&part, dtype);
            for sample in 0..batch {
                let from = (sample * steps + at) * features;
                let length = count * features;
                expected[from..from + length].copy_from_slice(&placed[sample * length..][..length]);
            }
            let before = to_gpu(&whole, &[batch, steps, features], dtype);
            let part = to_gpu(&part, &[batch, count, features], of_part);
            let apart = place_steps(before.clone(), part.clone(), at);
            assert_eq!(to_host(before.clone()), whole, "held by somebody else");
            assert_eq!(to_host(apart), expected);
            assert_eq!(to_host(place_steps(before, part, at)), expected);
        }
    }
}

#[test]
#[should_panic(expected = "cannot place steps [1, 2, 3] from step 4 on into [1, 5, 3]")]
fn steps_past_the_end_are_refused() {
    if !has_driver() {
        panic!("cannot place steps [1, 2, 3] from step 4 on into [1, 5, 3]");
    }
    let [whole, part] = [5, 2].map(|steps| to_gpu(&noise(steps * 3, 3), &[1, steps, 3], DType::F32));
    place_steps(whole, part, 4);
}

#[test]
fn casts_round_to_the_nearest_and_ties_to_even() {
    if !has_driver() {
        return;
    }
    // Ties of both formats, infinities by overflow, and subnormal numbers of F16.
    let mut values = vec![1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0];
    values.extend([-0.0, 1e6, -1e6, 3e-6, 65519.0, 65520.0]);
    values.extend(noise(501, 4));
    for from in FORMATS {
        for to in FORMATS {
            let stored = rounded(&values, from);
            let found = cast(to_gpu(&stored, &[7, 73], from), to);
            assert_eq!(found.dtype, to);
            assert_eq!(to_host(found), rounded(&stored, to), "{from:?} → {to:?}");
        }
    }
}
