//! Lean recurrent layers, which cut time into runs of steps, against themselves and against Burn's backward passes.

use burn::{
    module::Param,
    tensor::{Device, Int, Tensor, TensorData, module::embedding},
};
use oomph_config::Precision;
use oomph_core::{Generator, Key};
use oomph_model::{
    Init, Kernels, Pass, Policy,
    layers::{Dropout, Gru, Lstm, LstmState, RecurrentInput},
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
    /// The cell of an LSTM, and the hidden units of a GRU.
    LastStateAlone,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Lstm,
    Gru,
}

const KINDS: [Kind; 2] = [Kind::Lstm, Kind::Gru];

enum Layer {
    Lstm(Lstm),
    Gru(Gru),
}

impl Layer {
    fn new(kind: Kind, init: &Init, features: [usize; 2]) -> Self {
        match kind {
            Kind::Lstm => Self::Lstm(Lstm::new(init, features)),
            Kind::Gru => Self::Gru(Gru::new(init, features)),
        }
    }

    /// Runs from the given states, hidden units first; gives the outputs and the last states.
    fn forward(
        &self,
        input: RecurrentInput,
        state: Vec<Tensor<2>>,
        pass: &mut Pass,
    ) -> (Tensor<3>, Vec<Tensor<2>>) {
        match self {
            Self::Lstm(layer) => {
                let [hidden, cell] = state.try_into().unwrap();
                let state = LstmState { hidden, cell };
                let (output, state) = layer.forward(input, Some(state), pass).unwrap();
                (output, vec![state.hidden, state.cell])
            }
            Self::Gru(layer) => {
                let [hidden] = state.try_into().unwrap();
                let (output, hidden) = layer.forward(input, Some(hidden), pass).unwrap();
                (output, vec![hidden])
            }
        }
    }

    fn parameters(&self) -> ([&Param<Tensor<2>>; 2], [&Param<Tensor<1>>; 2]) {
        match self {
            Self::Lstm(layer) => ([&layer.weight_ih, &layer.weight_hh], [&layer.bias_ih, &layer.bias_hh]),
            Self::Gru(layer) => ([&layer.weight_ih, &layer.weight_hh], [&layer.bias_ih, &layer.bias_hh]),
        }
    }

    /// The names of its states.
    fn states(&self) -> &'static [&'static str] {
        match self {
            Self::Lstm(_) => &["h0", "c0"],
            Self::Gru(_) => &["h0"],
        }
    }
}

fn policy(lean: bool, kernels: Kernels) -> Policy {
    Policy { lean, kernels, ..Policy::default() }
}

/// A layer run over a sequence, part by part with the state carried on, and all its gradients.
fn outcome(kind: Kind, shape: Shape, parts: &[usize], policy: Policy, weighed: Weighed) -> Outcome {
    let Shape { batch, steps, units } = shape;
    let device = Device::flex().autodiff();
    let layer = Layer::new(kind, &Init::new(&device, 5), [FEATURES, units]);
    let input = tensor("input", [batch, steps, FEATURES], &device).require_grad();
    let of_state = |name: &&str| tensor(name, [batch, units], &device).require_grad();
    let start: Vec<Tensor<2>> = layer.states().iter().map(of_state).collect();
    let mut state = start.clone();
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let (mut outputs, mut first) = (Vec::new(), 0);
    for count in parts {
        let part = input.clone().narrow(1, first, *count);
        let (output, end) = layer.forward(part.into(), state, &mut pass);
        outputs.push(policy.widen(output));
        state = end;
        first += count;
    }
    let output = Tensor::cat(outputs, 1);
    let ends: Vec<Tensor<2>> = state.into_iter().map(|tensor| policy.widen(tensor)).collect();
    let weighted = |index: usize| {
        let weights = tensor(["of hidden", "of cell"][index], [batch, units], &device);
        (ends[index].clone() * weights).sum()
    };
    let loss = match weighed {
        Weighed::LastStateAlone => weighted(ends.len() - 1),
        Weighed::OutputsAndState => {
            let of_output = (output.clone() * tensor("of output", [batch, steps, units], &device)).sum();
            (0..ends.len()).map(weighted).fold(of_output, |sum, term| sum + term)
        }
    };
    let gradients = loss.backward();
    let mut found = vec![("output", host::values(output))];
    found.extend(["hidden", "cell"].into_iter().zip(ends.into_iter().map(host::values)));
    found.push(("gradient of input", host::gradient(&input, &gradients)));
    let of_start = start.iter().map(|state| host::gradient(state, &gradients));
    found.extend(["gradient of h0", "gradient of c0"].into_iter().zip(of_start));
    let (weights, biases) = layer.parameters();
    let of_weights = weights.map(|weight| host::gradient(&weight.val(), &gradients));
    found.extend(["gradient of weight_ih", "gradient of weight_hh"].into_iter().zip(of_weights));
    let of_biases = biases.map(|bias| host::gradient(&bias.val(), &gradients));
    found.extend(["gradient of bias_ih", "gradient of bias_hh"].into_iter().zip(of_biases));
    found
}

/// The same over tokens: their vectors are looked up before the layer, or the layer reads the tokens. The gradient of the input is that
/// of the vectors.
fn of_tokens(kind: Kind, shape: Shape, policy: Policy, are_looked_up: bool) -> Outcome {
    const TOKENS: usize = 5;
    let Shape { batch, steps, units } = shape;
    let device = Device::flex().autodiff();
    let layer = Layer::new(kind, &Init::new(&device, 5), [FEATURES, units]);
    let vectors = tensor("vectors", [TOKENS, FEATURES], &device).require_grad();
    // Token 3 does not occur.
    let tokens = (0..batch * steps).map(|at| [0, 4, 1, 1, 2][at * at % 5]).collect::<Vec<i64>>();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [batch, steps]), &device);
    let input = match are_looked_up {
        true => policy.narrow(embedding(vectors.clone(), tokens)).into(),
        false => RecurrentInput::Tokens { tokens, vectors: vectors.clone() },
    };
    let of_state = |name: &&str| tensor(name, [batch, units], &device).require_grad();
    let start: Vec<Tensor<2>> = layer.states().iter().map(of_state).collect();
    let mut pass = Pass::train(Key::new(0)).with_policy(policy);
    let (output, _) = layer.forward(input, start.clone(), &mut pass);
    let output = policy.widen(output);
    let weights = tensor("of output", [batch, steps, units], &device);
    let gradients = (output.clone() * weights).sum().backward();
    let mut found = vec![("output", host::values(output))];
    found.push(("gradient of vectors", host::gradient(&vectors, &gradients)));
    let of_start = start.iter().map(|state| host::gradient(state, &gradients));
    found.extend(["gradient of h0", "gradient of c0"].into_iter().zip(of_start));
    let (weights, biases) = layer.parameters();
    let of_weights = weights.map(|weight| host::gradient(&weight.val(), &gradients));
    found.extend(["gradient of weight_ih", "gradient of weight_hh"].into_iter().zip(of_weights));
    let of_biases = biases.map(|bias| host::gradient(&bias.val(), &gradients));
    found.extend(["gradient of bias_ih", "gradient of bias_hh"].into_iter().zip(of_biases));
    found
}

fn whole(kind: Kind, shape: Shape, policy: Policy) -> Outcome {
    outcome(kind, shape, &[shape.steps], policy, Weighed::OutputsAndState)
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
    for (kind, shape) in kinds_and_shapes() {
        for weighed in [Weighed::OutputsAndState, Weighed::LastStateAlone] {
            let of = |policy| outcome(kind, shape, &[shape.steps], policy, weighed);
            let expected = of(policy(false, Kernels::Composed));
            for kernels in [Kernels::Cpu, Kernels::Composed] {
                let what = format!("{kind:?} {shape:?} {kernels:?}");
                compare(&what, TOLERANCE, &of(policy(true, kernels)), &expected);
            }
        }
    }
}

fn kinds_and_shapes() -> impl Iterator<Item = (Kind, Shape)> {
    KINDS.into_iter().flat_map(|kind| SHAPES.map(|shape| (kind, shape)))
}

#[test]
fn recomputed_runs_give_the_same_bits() {
    for (kind, shape) in kinds_and_shapes() {
        for kernels in [Kernels::Cpu, Kernels::Composed] {
            for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
                let kept = Policy { precision, ..policy(true, kernels) };
                let again = Policy { recompute: true, ..kept };
                let is_same = whole(kind, shape, kept) == whole(kind, shape, again);
                assert!(is_same, "{kind:?} {shape:?} {kernels:?} {precision:?}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for (kind, shape) in kinds_and_shapes() {
        let by_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| whole(kind, shape, policy(true, Kernels::Cpu)))
        };
        let one = by_threads(1);
        assert!([2, 3, 7].into_iter().all(|threads| by_threads(threads) == one), "{kind:?} {shape:?}");
    }
}

#[test]
fn a_state_carried_on_continues_the_sequence() {
    for kind in KINDS {
        for (name, policy) in [
            ("own", policy(true, Kernels::Cpu)),
            ("own, recomputed", Policy { recompute: true, ..policy(true, Kernels::Cpu) }),
            ("composed", policy(true, Kernels::Composed)),
            ("plain", policy(false, Kernels::Composed)),
        ] {
            let parts = |parts: &[usize]| outcome(kind, SHORT, parts, policy, Weighed::OutputsAndState);
            compare(&format!("{kind:?} {name}"), TOLERANCE, &parts(&[9, 1, 13]), &parts(&[23]));
        }
    }
}

#[test]
fn a_layer_that_reads_tokens_has_the_gradients_of_one_that_reads_their_vectors() {
    for (kind, shape) in kinds_and_shapes() {
        let of = |policy, are_looked_up| of_tokens(kind, shape, policy, are_looked_up);
        let expected = of(policy(false, Kernels::Composed), true);
        for kernels in [Kernels::Cpu, Kernels::Composed] {
            let what = format!("{kind:?} {shape:?} {kernels:?}");
            let own = policy(true, kernels);
            let read = of(own, false);
            compare(&what, TOLERANCE, &read, &expected);
            assert!(of(Policy { recompute: true, ..own }, false) == read, "{what}, recomputed");
            let narrow = Policy { precision: Precision::Bf16, ..own };
            compare(&format!("{what} bf16"), BF16_TOLERANCE, &of(narrow, false), &expected);
        }
        compare("without lean layers", TOLERANCE, &of(policy(false, Kernels::Composed), false), &expected);
        let by_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| of(policy(true, Kernels::Cpu), false))
        };
        assert!(by_threads(1) == by_threads(3), "{kind:?} {shape:?}");
    }
}

#[test]
fn sixteen_bits_stay_near_thirty_two() {
    let precisions = [(Precision::Bf16, BF16_TOLERANCE), (Precision::Fp16, FP16_TOLERANCE)];
    for (kind, (precision, tolerance)) in KINDS.into_iter().flat_map(|kind| precisions.map(|of| (kind, of))) {
        for (lean, kernels) in [(true, Kernels::Cpu), (true, Kernels::Composed), (false, Kernels::Composed)] {
            let wide = policy(lean, kernels);
            let narrow = Policy { precision, ..wide };
            let what = format!("{kind:?} {precision:?} lean={lean} {kernels:?}");
            compare(&what, tolerance, &whole(kind, SHORT, narrow), &whole(kind, SHORT, wide));
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
