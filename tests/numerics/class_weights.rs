//! Weights of classes in the loss, against PyTorch and over micro-batches.

use burn::tensor::{Device, Int, Tensor};
use oomph_engine::{
    class_weights::ClassWeights,
    record::model_record,
    task::{Classification, DeviceTargets, Task},
};
use oomph_trainer::new_stepper;

use crate::{compare::Comparison, digits, host};

/// Relative: exponentials, logarithms and a few sums in float32, each right to 1e-7.
const TOLERANCE: f64 = 2e-6;

/// `torch.nn.CrossEntropyLoss(weight=w, label_smoothing=e)(x, y)` and `x.grad` in float64, by PyTorch 2.15 with
/// w = [0.5, 3, 1.25], y = [2, 0, 2, 1] and the logits of [`check`].
const GOLDEN: [(f64, f64, [f64; 12]); 2] = [
    (
        0.0,
        0.7015115401955039,
        [
            0.03651883169584098,
            0.008148452764726552,
            -0.04466728446056752,
            -0.02346330490407792,
            0.017153050333137628,
            0.006310254570940293,
            0.00731646394986244,
            0.0540617625713373,
            -0.061378226521199765,
            0.15030480267786367,
            -0.33388750323332633,
            0.18358270055546275,
        ],
    ),
    (
        0.1,
        0.7999518312456402,
        [
            0.034714889429952295,
            -0.008300921828214073,
            -0.026413967601738204,
            -0.00493590985551703,
            0.004202877905317449,
            0.0007330319501995781,
            0.004733791877414329,
            0.03883674290657298,
            -0.043570534783987314,
            0.14042929810696453,
            -0.308398371136197,
            0.16796907302923253,
        ],
    ),
];

/// The same with probabilities as targets: 0.75 for each class of y and 0.25 for each of [1, 2, 0, 1].
const MIXED: [(f64, f64, [f64; 12]); 2] = [
    (
        0.0,
        1.9098323142700873,
        [
            0.07395063418407798,
            -0.17099938315142874,
            0.09704874896735076,
            0.029731933635339283,
            0.03537816631209636,
            -0.06511009994743565,
            -0.021921508463925387,
            0.06892874727845506,
            -0.04700723881452971,
            0.2254572040167955,
            -0.5008312548499895,
            0.2753740508331941,
        ],
    ),
    (
        0.1,
        1.9717362504476088,
        [
            0.06932748212121331,
            -0.17735123881098785,
            0.10802375668977453,
            0.051030337109035005,
            0.014988048589127098,
            -0.06601838569816211,
            -0.022505896133725653,
            0.04730760743916366,
            -0.02480171130543802,
            0.2106439471604468,
            -0.46259755670429553,
            0.2519536095438488,
        ],
    ),
];

#[test]
fn the_weighted_loss_is_that_of_pytorch() {
    let device = Device::flex().autodiff();
    let classes = Tensor::<1, Int>::from_ints([2, 0, 2, 1], &device);
    check(GOLDEN, &DeviceTargets::Classes(classes));
}

#[test]
fn the_weighted_loss_of_mixed_samples_is_that_of_pytorch_with_probabilities() {
    let device = Device::flex().autodiff();
    let ints = |classes: [i32; 4]| Tensor::<1, Int>::from_ints(classes, &device);
    let (classes, partners) = (ints([2, 0, 2, 1]), ints([1, 2, 0, 1]));
    check(MIXED, &DeviceTargets::Mixed { classes, partners, share: 0.75 });
}

fn check(golden: [(f64, f64, [f64; 12]); 2], targets: &DeviceTargets) {
    let device = Device::flex().autodiff();
    for (label_smoothing, expected, gradient) in golden {
        let logits = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-2.0, 0.0, 1.0], [0.1, 0.2, 0.3]];
        let logits = Tensor::<2>::from_floats(logits, &device).require_grad();
        let task = Classification { label_smoothing, ..Classification::default() };
        let task = task.with_class_weights(ClassWeights::new([0.5, 3.0, 1.25])).expect("it takes weights");
        let loss = task.loss(&logits.clone().into(), targets).unwrap();
        let mut comparison = Comparison::new(format!("label smoothing {label_smoothing}"), TOLERANCE);
        comparison.error("loss", host::scalar(loss.clone()) / expected - 1.0);
        comparison.elements("gradient", &host::gradient(&logits, &loss.backward()), &gradient);
        comparison.finish();
    }
}

#[test]
fn equal_weights_change_nothing() {
    let device = Device::flex().autodiff();
    let logits = Tensor::<2>::from_floats([[0.5, -1.0], [1.5, 0.25]], &device);
    let classes = DeviceTargets::Classes(Tensor::<1, Int>::from_ints([1, 0], &device));
    let plain = Classification { label_smoothing: 0.1, ..Classification::default() };
    let weighted = plain.with_class_weights(ClassWeights::new([7.0, 7.0])).expect("it takes weights");
    let loss = |task: &dyn Task| host::scalar(task.loss(&logits.clone().into(), &classes).unwrap());
    let (plain, weighted) = (loss(&plain), loss(&*weighted));
    assert!((plain / weighted - 1.0).abs() < TOLERANCE, "{plain} and {weighted}");
}

/// A step so large that a parameter after it is its gradient but for a thousandth.
const LEARNING_RATE: f64 = 1e6;

#[test]
fn the_weighted_step_does_not_depend_on_the_micro_batch() {
    let step = |mixup: f64, micro_batch: usize| {
        let session = digits::session(&format!(
            "model = {{ name = 'lstm', hidden = 12, layers = 2 }}
             data = {{ source = 'digits', layout = 'rows', workers = 0, augment = {{ mixup = {mixup} }} }}
             train = {{ batch = 16, label_smoothing = 0.1, class_weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }}
             optimizer = {{ name = 'sgd' }}
             memory = {{ micro_batch = {micro_batch} }}"
        ));
        let batch = digits::batches(&session, 1).remove(0);
        let mut stepper = new_stepper(&session).unwrap().0;
        let outcome = stepper.step(batch, 0, LEARNING_RATE, &*session.task).unwrap();
        (host::scalar(outcome.loss.unwrap()), model_record(&stepper.model).unwrap())
    };
    for mixup in [0.0, 1.0] {
        let (whole_loss, whole) = step(mixup, 16);
        for micro_batch in [1, 3, 5, 7] {
            let (loss, model) = step(mixup, micro_batch);
            let mut comparison = Comparison::new(format!("mixup {mixup}, micro-batch {micro_batch}"), 1e-5);
            comparison.error("loss", loss / whole_loss - 1.0);
            for (name, tensor) in &model {
                let expected: Vec<_> = whole[name].values.iter().copied().map(f64::from).collect();
                comparison.elements(name, &tensor.values, &expected);
            }
            comparison.finish();
        }
    }
}
