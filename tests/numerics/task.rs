//! Losses against numbers worked out by hand.

use burn::tensor::{Device, Int, Tensor};
use oomph_engine::task::{Classification, DeviceTargets, Regression, Task, TaskError};
use oomph_model::{AnyTensor, Kernels};

use crate::{compare::Comparison, golden::Golden, host};

/// Relative: a logarithm, an exponential and a few sums in float32, each right to 1e-7.
const TOLERANCE: f64 = 1e-6;

fn device() -> Device {
    Device::flex().autodiff()
}

fn classes<const N: usize>(classes: [i32; N]) -> DeviceTargets {
    DeviceTargets::Classes(Tensor::<1, Int>::from_ints(classes, &device()))
}

/// Logits whose softmax is [1/4, 3/4] and [4/5, 1/5].
fn logits() -> Tensor<2> {
    Tensor::from_floats([[0.0, 3.0_f32.ln()], [4.0_f32.ln(), 0.0]], &device())
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= TOLERANCE * expected.abs(), "{found}, not {expected}");
}

/// Burn's operations, our own composed of them, and our kernels.
const LEAN: [Option<Kernels>; 3] = [None, Some(Kernels::Composed), Some(Kernels::Cpu)];

#[test]
fn cross_entropy_is_the_mean_of_negative_log_probabilities() {
    for lean in LEAN {
        let loss = |label_smoothing, targets| {
            let task = Classification { label_smoothing, lean, weights: None };
            host::scalar(task.loss(&logits().into(), &classes(targets)).unwrap())
        };
        let ln = f64::ln;
        assert_close(loss(0.0, [1, 1]), -(ln(0.75) + ln(0.2)) / 2.0);
        assert_close(loss(0.0, [0, 0]), -(ln(0.25) + ln(0.8)) / 2.0);
        // ε = 0.2 and two classes: 0.9 for the class, 0.1 for the other.
        let smoothed = -(0.9 * ln(0.75) + 0.1 * ln(0.25) + 0.9 * ln(0.2) + 0.1 * ln(0.8)) / 2.0;
        assert_close(loss(0.2, [1, 1]), smoothed);
    }
}

#[test]
fn the_loss_of_mixed_classes_is_that_of_torch_with_probabilities() {
    let golden = Golden::open("mixed");
    let ints = |key: &str| {
        let values = golden.get(key).values.iter().map(|value| *value as i32).collect::<Vec<_>>();
        Tensor::<1, Int>::from_ints(values.as_slice(), &device())
    };
    for (share, key) in [(0.0, "0.0"), (0.3, "0.3"), (0.5, "0.5"), (1.0, "1.0")] {
        for (label_smoothing, smoothing) in [(0.0, "0.0"), (0.1, "0.1")] {
            for lean in LEAN {
                let logits = golden.get("logits").tensor::<2>(&device()).require_grad();
                let (classes, partners) = (ints("classes"), ints("partners"));
                let targets = DeviceTargets::Mixed { classes, partners, share };
                let task = Classification { label_smoothing, lean, weights: None };
                let loss = task.loss(&logits.clone().into(), &targets).unwrap();
                let gradient = host::gradient(&logits, &loss.clone().backward());
                let mut comparison = Comparison::new(format!("share {share}, {label_smoothing}"), TOLERANCE);
                let expected = |what| &golden.get(&format!("{what}.{key}.{smoothing}")).values;
                comparison.elements("loss", &[host::scalar(loss) as f32], expected("loss"));
                comparison.elements("gradient", &gradient, expected("grad"));
                comparison.finish();
            }
        }
    }
}

#[test]
fn a_mixed_sample_is_correct_if_its_larger_share_is_predicted() {
    // Class 1 is predicted for the first row, class 0 for the second.
    let ints = |classes: [i32; 2]| Tensor::<1, Int>::from_ints(classes, &device());
    for (share, expected) in [(0.9, 2.0), (0.5, 2.0), (0.4, 1.0)] {
        let targets = DeviceTargets::Mixed { classes: ints([1, 0]), partners: ints([1, 1]), share };
        let correct = Classification::default().correct(&logits().into(), &targets).unwrap();
        assert_eq!(host::scalar(correct), expected, "{share}");
    }
}

#[test]
fn the_gradient_of_cross_entropy_is_probability_minus_target_over_the_batch() {
    let check = |label_smoothing, expected: [f64; 4]| {
        for lean in LEAN {
            let logits = logits().require_grad();
            let task = Classification { label_smoothing, lean, weights: None };
            let loss = task.loss(&logits.clone().into(), &classes([1, 1])).unwrap();
            let found = host::gradient(&logits, &loss.backward());
            for (found, expected) in found.into_iter().zip(expected) {
                assert_close(found.into(), expected);
            }
        }
    };
    check(0.0, [0.25 / 2.0, (0.75 - 1.0) / 2.0, 0.8 / 2.0, (0.2 - 1.0) / 2.0]);
    check(0.2, [(0.25 - 0.1) / 2.0, (0.75 - 0.9) / 2.0, (0.8 - 0.1) / 2.0, (0.2 - 0.9) / 2.0]);
}

#[test]
fn cross_entropy_of_huge_logits_does_not_overflow() {
    let logits = Tensor::<2>::from_floats([[1000.0, 0.0, -1000.0]], &device());
    for lean in LEAN {
        let task = Classification { lean, ..Classification::default() };
        let loss = task.loss(&logits.clone().into(), &classes([2])).unwrap();
        assert_close(host::scalar(loss), 2000.0);
    }
}

#[test]
fn correct_counts_the_samples_whose_largest_logit_is_their_class() {
    let check = |targets, expected: f64| {
        let correct = Classification { label_smoothing: 0.1, ..Classification::default() }
            .correct(&logits().into(), &classes(targets));
        assert_eq!(host::scalar(correct.unwrap()), expected, "{targets:?}");
    };
    check([1, 0], 2.0);
    check([1, 1], 1.0);
    check([0, 1], 0.0);
}

#[test]
fn regression_is_the_mean_of_squares_over_all_elements() {
    let values = |values: [[f32; 3]; 2]| Tensor::<2>::from_floats(values, &device());
    let output = values([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).require_grad();
    let targets = DeviceTargets::Values(values([[1.0, 2.5, 1.0], [4.0, 5.0, 9.0]]));
    let loss = Regression.loss(&output.clone().into(), &targets).unwrap();
    // (0.5² + 2² + 3²) / 6
    assert_close(host::scalar(loss.clone()), 13.25 / 6.0);
    let gradient = host::gradient(&output, &loss.backward());
    for (found, difference) in gradient.into_iter().zip([0.0, -0.5, 2.0, 0.0, 0.0, -3.0]) {
        assert_close(found.into(), 2.0 * difference / 6.0);
    }
    assert!(Regression.correct(&output.into(), &targets).is_none(), "no value is right or wrong");
}

#[test]
fn an_output_or_target_that_does_not_fit_is_an_error_with_both_shapes() {
    let flat = AnyTensor::zeros(&[4], &device());
    let error = Classification::default().loss(&flat, &classes([0, 1, 2, 3])).unwrap_err();
    assert!(matches!(&error, TaskError::Output { found, .. } if *found == [4]), "{error}");
    let narrow = DeviceTargets::Values(Tensor::zeros([2, 1], &device()));
    // Without the check, [2, 2] − [2, 1] would broadcast.
    let error = Regression.loss(&logits().into(), &narrow).unwrap_err();
    assert!(matches!(&error, TaskError::Output { found, .. } if *found == [2, 2]), "{error}");
    let error = Regression.loss(&logits().into(), &classes([0, 1])).unwrap_err();
    assert!(matches!(error, TaskError::Targets { found: "classes", .. }), "{error}");
}
