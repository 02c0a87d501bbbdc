//! The lean LSTM, which cuts time into runs of steps, against itself and against Burn's backward passes.

use burn::tensor::{Device, Tensor, TensorData};
use oomph_config::Precision;
use oomph_core::{Generator, Key};
use oomph_model::{
    Init, Kernels, Pass, Policy,
    layers::{Dropout, Lstm, LstmState},
};

use crate::{
    compare::Comparison,
    formula::{self, Spread},
    host,
};

const FEATURES: usize = 6;
/// One of each; runs that are not all of one length; units that fill vectors; rows for more than one task.
const SHAPES: [Shape; 4] = [
    Shape { batch: 1, steps: 1, units: 10 },
    Shape { batch: 3, steps: 7, units: 5 },
    Shape { batch: 16, steps: 40, units: 16 },
    Shape { batch: 7, steps: 101, units: 40 },
];
const SHORT: Shape = Shape { batch: 5, steps: 23, units: 10 };
/// Relative, where only the order of summation differs.
const TOLERANCE: f64 = 1e-5;
/// Relative, of 8 bits of mantissa over 23 steps, two matrix products each; and of 11 bits.
const BF16_TOLERANCE: f64 = 6e-2;
const FP16_TOLERANCE: f64 = 8e-3;

/// Values and gradients by name.
type Outcome = Vec<(&'static str, Vec<f32>)>;

#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    steps: usize,
    units: usize,
}

/// What the loss weighs.
#[derive(Clone, Copy, PartialEq)]
enum Weighed {
    OutputsAndState,
    CellAlone,
}

fn policy(lean: bool, kernels: Kernels) -> Policy {
    Policy { lean, kernels, ..Policy::default() }
}

/// A layer run over a sequence, part by part with the state carried on, and all its gradients.
fn outcome(shape: Shape, parts: &[usize], policy: Policy, weighed: Weighed) -> Outcome {
    let Shape { batch, steps, units } = shape;
    let device = Device::flex().autodiff();
    let layer = Lstm::new(&Init::new(&device, 5), [FEATURES, units]);
    let input = tensor("input", [batch, steps, FEATURES], &device).require_grad();
    let start = ["h0", "c0"].map(|name| tensor(name, [batch, units], &device).require_grad());
    let mut state = LstmState { hidden: start[0].clone(), cell: start[1].clone() };
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let (mut outputs, mut first) = (Vec::new(), 0);
    for count in parts {
        let part = input.clone().narrow(1, first, *count);
        let (output, end) = layer.forward(part, Some(state), &mut pass).unwrap();
        outputs.push(policy.widen(output));
        state = end;
        first += count;
    }
    let output = Tensor::cat(outputs, 1);
    let [hidden, cell] = [state.hidden, state.cell].map(|tensor| policy.widen(tensor));
    let weights = |name, dims| tensor::<2>(name, dims, &device);
    let of_cell = (cell.clone() * weights("of cell", [batch, units])).sum();
    let loss = match weighed {
        Weighed::CellAlone => of_cell,
        Weighed::OutputsAndState => {
            let of_output = (output.clone() * tensor("of output", [batch, steps, units], &device)).sum();
            of_output + (hidden.clone() * weights("of hidden", [batch, units])).sum() + of_cell
        }
    };
    let gradients = loss.backward();
    vec![
        ("output", host::values(output)),
        ("hidden", host::values(hidden)),
        ("cell", host::values(cell)),
        ("gradient of input", host::gradient(&input, &gradients)),
        ("gradient of h0", host::gradient(&start[0], &gradients)),
        ("gradient of c0", host::gradient(&start[1], &gradients)),
        ("gradient of weight_ih", host::gradient(&layer.weight_ih.val(), &gradients)),
        ("gradient of weight_hh", host::gradient(&layer.weight_hh.val(), &gradients)),
        ("gradient of bias_ih", host::gradient(&layer.bias_ih.val(), &gradients)),
        ("gradient of bias_hh", host::gradient(&layer.bias_hh.val(), &gradients)),
    ]
}

fn whole(shape: Shape, policy: Policy) -> Outcome {
    outcome(shape, &[shape.steps], policy, Weighed::OutputsAndState)
}

fn tensor<const D: usize>(name: &str, dims: [usize; D], device: &Device) -> Tensor<D> {
    let count = dims.iter().product();
    let values = formula::values(&format!("lstm runs/{name}"), count, Spread { center: 0.0, half: 1.0 });
    Tensor::from_data(TensorData::new(values, dims), device)
}

#[track_caller]
fn compare(what: &str, tolerance: f64, found: &Outcome, expected: &Outcome) {
    let mut comparison = Comparison::new(what, tolerance);
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        let expected: Vec<f64> = expected.iter().map(|value| f64::from(*value)).collect();
        comparison.elements(name, found, &expected);
    }
    comparison.finish();
}

#[test]
fn all_ways_to_compute_a_layer_agree() {
    for shape in SHAPES {
        for weighed in [Weighed::OutputsAndState, Weighed::CellAlone] {
            let of = |policy| outcome(shape, &[shape.steps], policy, weighed);
            let expected = of(policy(false, Kernels::Composed));
            for kernels in [Kernels::Cpu, Kernels::Composed] {
                compare(&format!("{shape:?} {kernels:?}"), TOLERANCE, &of(policy(true, kernels)), &expected);
            }
        }
    }
}

#[test]
fn recomputed_runs_give_the_same_bits() {
    for shape in SHAPES {
        for kernels in [Kernels::Cpu, Kernels::Composed] {
            for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
                let kept = Policy { precision, ..policy(true, kernels) };
                let again = Policy { recompute: true, ..kept };
                assert!(whole(shape, kept) == whole(shape, again), "{shape:?} {kernels:?} {precision:?}");
            }
        }
    }
}

#[test]
fn a_state_carried_on_continues_the_sequence() {
    for (name, policy) in [
        ("own", policy(true, Kernels::Cpu)),
        ("own, recomputed", Policy { recompute: true, ..policy(true, Kernels::Cpu) }),
        ("composed", policy(true, Kernels::Composed)),
        ("plain", policy(false, Kernels::Composed)),
    ] {
        let parts = |parts: &[usize]| outcome(SHORT, parts, policy, Weighed::OutputsAndState);
        compare(name, TOLERANCE, &parts(&[9, 1, 13]), &parts(&[23]));
    }
}

#[test]
fn sixteen_bits_stay_near_thirty_two() {
    let precisions = [(Precision::Bf16, BF16_TOLERANCE), (Precision::Fp16, FP16_TOLERANCE)];
    for (precision, tolerance) in precisions {
        for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
            let wide = policy(lean, kernels);
            let narrow = Policy { precision, ..wide };
            let what = format!("{precision:?} lean={lean} {kernels:?}");
            compare(&what, tolerance, &whole(SHORT, narrow), &whole(SHORT, wide));
        }
    }
}

#[test]
fn a_lean_dropout_drops_what_one_with_a_mask_does() {
    let dropped = |policy: Policy| {
        let input = tensor::<3>("input", [3, 50, 11], &Device::flex().autodiff()).require_grad();
        let mut pass = Pass::train(Key::new(7)).with_policy(policy);
        let narrow = policy.narrow(input.clone());
        let output = pass.scope("dropout", |pass| Dropout::new(0.4).forward(narrow, pass));
        let output = policy.widen(output);
        let gradients = (output.clone() * tensor("weights", [3, 50, 11], &output.device())).sum().backward();
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        [bits(host::values(output)), bits(host::gradient(&input, &gradients))]
    };
    for precision in [Precision::Fp32, Precision::Bf16] {
        let of = |lean, kernels| dropped(Policy { precision, ..policy(lean, kernels) });
        let plain = of(false, Kernels::Composed);
        assert!(of(true, Kernels::Cpu) == plain && of(true, Kernels::Composed) == plain, "{precision:?}");
        // The mask is that of the place.
        let mut generator = Generator::at(Key::new(7).with_name("dropout"));
        let drops = plain[0].iter().map(|bits| f32::from_bits(*bits) == 0.0);
        assert!(drops.eq((0..3 * 50 * 11).map(|_| generator.chance(0.4))), "{precision:?}");
    }
}
