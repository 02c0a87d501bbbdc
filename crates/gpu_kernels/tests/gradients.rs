//! Operations on all gradients against a plain computation in 64 bits.

#![cfg(feature = "gpu")]

mod common;

use burn_backend::DType;
use common::{assert_close, has_driver, noise, to_gpu, to_host, vector};
use oomph_gpu_kernels::{
    GpuTensor,
    gradients::{Factor, Term, scale, sum},
    tensor_sums,
};

/// More than one launch takes; single elements and vectors of four; one cube and several.
fn tensors() -> Vec<Vec<f64>> {
    let lengths = (0..101).map(|index| [1, 4, 10, 1024, 1029, 20_000, 64][index % 7] + 4 * index);
    lengths.enumerate().map(|(index, length)| noise(length, index as u64)).collect()
}

fn gpu(tensors: &[Vec<f64>]) -> Vec<GpuTensor> {
    tensors.iter().map(|values| vector(values)).collect()
}

#[test]
fn squares_of_all_tensors_are_summed() {
    if !has_driver() {
        return;
    }
    let tensors = tensors();
    let expected: f64 = tensors.iter().flatten().map(|value| value * value).sum();
    let found = || sum(gpu(&tensors), Term::Square).expect("there are tensors");
    assert_close(found(), &[expected], DType::F32, "squares");
    assert_eq!(to_host(found()), to_host(found()), "the order is fixed");
    assert!(tensor_sums(tensors.iter().map(Vec::len)) > tensors.len());
    assert!(sum::<oomph_gpu_kernels::GpuRuntime>(Vec::new(), Term::Square).is_none());
}

#[test]
fn one_value_that_is_not_finite_is_found() {
    if !has_driver() {
        return;
    }
    let mut tensors = tensors();
    // The square of one is infinite, and so is the sum of two.
    tensors[5].fill(f64::from(f32::MAX));
    let check =
        |tensors: &[Vec<f64>]| to_host(sum(gpu(tensors), Term::Finite).expect("there are tensors"))[0];
    assert_eq!(check(&tensors), 0.0);
    for (index, bad) in [(0, f64::NAN), (54, f64::INFINITY), (100, f64::NEG_INFINITY)] {
        let (mut broken, last) = (tensors.clone(), tensors[index].len() - 1);
        broken[index][last] = bad;
        assert!(check(&broken).is_nan(), "{bad} in tensor {index}");
    }
}

#[test]
fn all_tensors_are_scaled_in_place_unless_somebody_holds_them() {
    if !has_driver() {
        return;
    }
    let tensors = tensors();
    let kept = gpu(&tensors);
    for factor in [Factor::Number(-0.375), Factor::Element(to_gpu(&[-0.375], &[1], DType::F32))] {
        for input in [kept.clone(), gpu(&tensors)] {
            let scaled = scale(input, &factor);
            assert_eq!(scaled.len(), tensors.len());
            for (found, values) in scaled.into_iter().zip(&tensors) {
                let expected: Vec<f64> =
                    values.iter().map(|value| f64::from((value * -0.375) as f32)).collect();
                assert_eq!(to_host(found), expected);
            }
        }
    }
    for (kept, values) in kept.into_iter().zip(&tensors) {
        assert_eq!(&to_host(kept), values);
    }
}
