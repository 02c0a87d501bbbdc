//! The loss of labels, against PyTorch and numbers worked out by hand.

use burn::tensor::{Device, Tensor};
use oomph_engine::{
    class_weights::ClassWeights,
    task::{Classification, DeviceTargets, MultiLabel, Regression, Task, TaskError},
};
use oomph_model::Kernels;

use crate::{compare::Comparison, golden::Golden, host};

/// Relative: an exponential, a logarithm and a few sums in float32, each right to 1e-7.
const TOLERANCE: f64 = 1e-6;

/// Burn's operations, our own composed of them, and our kernels.
const LEAN: [Option<Kernels>; 3] = [None, Some(Kernels::Composed), Some(Kernels::Cpu)];

fn device() -> Device {
    Device::flex().autodiff()
}

fn labels<const B: usize, const K: usize>(rows: [[f32; K]; B]) -> DeviceTargets {
    DeviceTargets::Labels(Tensor::from_floats(rows, &device()))
}

#[test]
fn the_loss_and_its_gradient_are_those_of_pytorch() {
    let golden = Golden::open("multi_label");
    let weights = ClassWeights::new(golden.get("weights").floats());
    // Two logits are ±60, and one is 0, where Burn differentiates |x| to 0.
    for share in ["1.0", "0.75"] {
        for (label_smoothing, smoothing) in [(0.0, "0.0"), (0.1, "0.1")] {
            for weights in [None, Some(weights.clone())] {
                for lean in LEAN {
                    let name = if weights.is_some() { "weighted" } else { "plain" };
                    let key = format!("{share}.{smoothing}.{name}");
                    let logits = golden.get("logits").tensor::<2>(&device()).require_grad();
                    let targets = golden.get(&format!("targets.{share}")).tensor::<2>(&device());
                    let task = MultiLabel { label_smoothing, lean, weights: weights.clone() };
                    let loss = task.loss(&logits.clone().into(), &DeviceTargets::Labels(targets)).unwrap();
                    let gradient = host::gradient(&logits, &loss.clone().backward());
                    let mut comparison = Comparison::new(format!("{key} {lean:?}"), TOLERANCE);
                    let expected = |what| &golden.get(&format!("{what}.{key}")).values;
                    comparison.elements("loss", &[host::scalar(loss) as f32], expected("loss"));
                    comparison.elements("gradient", &gradient, expected("grad"));
                    comparison.finish();
                }
            }
        }
    }
}

#[test]
fn huge_logits_do_not_overflow_and_a_right_one_costs_nothing() {
    let logits = Tensor::<2>::from_floats([[1e4, -1e4, 1e4, -1e4]], &device());
    for lean in LEAN {
        let loss = |row| {
            let task = MultiLabel { lean, ..MultiLabel::default() };
            host::scalar(task.loss(&logits.clone().into(), &labels([row])).unwrap())
        };
        assert_eq!(loss([1.0, 0.0, 1.0, 0.0]), 0.0);
        assert_eq!(loss([0.0, 1.0, 1.0, 0.0]), 5e3);
    }
}

#[test]
fn a_sample_is_correct_if_exactly_its_labels_are_predicted() {
    let logits = Tensor::<2>::from_floats([[0.0, -1.0], [-0.1, -2.0], [3.0, 3.0]], &device());
    let correct =
        |rows| host::scalar(MultiLabel::default().correct(&logits.clone().into(), &labels(rows)).unwrap());
    assert_eq!(correct([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), 3.0);
    assert_eq!(correct([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), 1.0);
    // Of mixed samples, shares of at least ½ count.
    assert_eq!(correct([[0.5, 0.4], [0.4, 0.6], [0.9, 0.5]]), 2.0);
}

#[test]
fn targets_and_outputs_that_do_not_fit_are_errors_with_both_shapes() {
    let logits = Tensor::<2>::zeros([2, 3], &device());
    let error = MultiLabel::default().loss(&logits.clone().into(), &labels([[1.0], [0.0]])).unwrap_err();
    assert_eq!(error.to_string(), "task `multi-label` takes an output of [2, 1], got [2, 3]");
    let whole = labels([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]);
    for error in [
        Classification::default().loss(&logits.clone().into(), &whole).unwrap_err(),
        Regression.loss(&logits.clone().into(), &whole).unwrap_err(),
    ] {
        assert!(matches!(error, TaskError::Targets { found: "labels", .. }), "{error}");
    }
    let values = DeviceTargets::Values(Tensor::zeros([2, 3], &device()));
    let error = MultiLabel::default().loss(&logits.into(), &values).unwrap_err();
    assert_eq!(error.to_string(), "task `multi-label` takes labels as targets, got values");
}
