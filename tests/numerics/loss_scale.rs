//! In half precision the loss is scaled, and a step whose gradients overflow leaves nothing behind.

use std::sync::{Arc, Mutex};

use burn::{
    module::{Module, Param},
    tensor::{Tensor, activation::relu},
};
use oomph_config::Config;
use oomph_core::{Generator, Key};
use oomph_data::{Batch, Values};
use oomph_engine::{
    loss_scale::LossScale,
    record::OptimizerRecord,
    step::{StepOutcome, Stepper},
};
use oomph_model::{AnyTensor, Architecture, ModelError, Pass, Stage, Stages, autodiff, differentiable};
use oomph_trainer::{Registry, Session, new_stepper, open};

use crate::{digits, host};

const LEARNING_RATE: f64 = 1e-3;

/// A number in the place of an element of a gradient.
#[derive(Clone, Copy, Debug)]
struct Poison {
    parameter: usize,
    element: usize,
    value: f32,
}

/// What the next backward finds poisoned.
type Injection = Arc<Mutex<Option<Poison>>>;

/// A layer in 32 bits in any precision, with a running mean of what it puts out: `[B, 8, 8]` or `[B, I]` to `[B, U]`.
#[derive(Module, Debug)]
struct Layer {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    running_mean: Param<Tensor<1>>,
    /// The place of its first parameter among all.
    #[module(skip)]
    first: usize,
    #[module(skip)]
    injection: Injection,
}

impl Stage for Layer {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = match input.rank() {
            3 => pass.float::<3>(input)?.flatten(1, 2),
            _ => pass.float::<2>(input)?,
        };
        let weight = injected(self.weight.val(), self.first, &self.injection);
        let bias = injected(self.bias.val(), self.first + 1, &self.injection);
        let output = relu(x.matmul(weight) + bias.unsqueeze());
        let mean = autodiff::inner(output.clone()).mean_dim(0).flatten(0, 1);
        pass.update(&self.running_mean, autodiff::inner(self.running_mean.val()) * 0.9 + mean * 0.1);
        Ok(output.into())
    }
}

/// The parameter itself. Its gradient is what backward gives, but for what is injected.
fn injected<const D: usize>(parameter: Tensor<D>, place: usize, injection: &Injection) -> Tensor<D> {
    let (plain, injection) = (autodiff::inner(parameter.clone()), injection.clone());
    let same = differentiable([parameter.into()], plain.into(), move |gradient, _| {
        let poison = injection.lock().expect("nobody panicked").filter(|poison| poison.parameter == place);
        let Some(Poison { element, value, .. }) = poison else { return [Some(gradient)] };
        let mut values = gradient.to_host().expect("the CPU does not fail");
        let element = element % values.len();
        values[element] = value;
        [Some(AnyTensor::floats(values, &gradient.dims(), &gradient.device()))]
    });
    same.float().expect("it has the rank of the parameter")
}

const WIDTHS: [usize; 4] = [64, 12, 12, 10];
/// A weight and a bias a layer.
const PARAMETERS: usize = 2 * (WIDTHS.len() - 1);

/// A perceptron on the digits in `precision`, and where to inject what into its gradients.
fn perceptron(precision: &str) -> (Session, Injection) {
    let injection = Injection::default();
    let registry = Registry::builtin().with_model("perceptron", {
        let injection = injection.clone();
        move |_| {
            let injection = injection.clone();
            Ok(Architecture::new("perceptron", move |_, init| {
                let layer = |(index, widths): (usize, &[usize])| Layer {
                    weight: init.uniform(&format!("{index}"), [widths[0], widths[1]], 0.3),
                    bias: init.constant([widths[1]], 0.0),
                    running_mean: init.statistic([widths[1]], 0.0),
                    first: 2 * index,
                    injection: injection.clone(),
                };
                let layers = WIDTHS.windows(2).enumerate().map(layer).enumerate();
                Ok(layers.fold(Stages::new(), |stages, (index, layer)| stages.with(index.to_string(), layer)))
            }))
        }
    });
    // A clipping to the norm of all gradients, so that one bad element would reach every parameter.
    let toml = format!(
        "model = {{ name = 'perceptron' }}
         data = {{ source = 'digits', layout = 'rows', workers = 0 }}
         train = {{ batch = 16 }}
         optimizer = {{ name = 'adamw', clip_global_norm = 1.0 }}
         memory = {{ precision = '{precision}', micro_batch = 8 }}"
    );
    let config = Config::from_toml("perceptron", &toml).expect("a valid configuration");
    (open(config, &registry).expect("everything it names is there"), injection)
}

/// All that a step may change, to the bit, but for the loss scale.
#[derive(PartialEq)]
struct Everything {
    parameters: Vec<(String, Vec<u32>)>,
    optimizer: OptimizerRecord,
}

impl Everything {
    fn of(stepper: &Stepper) -> Self {
        Self {
            parameters: host::parameter_bits(&stepper.model),
            optimizer: stepper.optimizer.record().expect("the CPU does not fail"),
        }
    }

    fn is_finite(&self) -> bool {
        let mut bits = self.parameters.iter().flat_map(|(_, bits)| bits);
        let mut state = self.optimizer.tensors.values().flat_map(|tensor| &tensor.values);
        bits.all(|bits| f32::from_bits(*bits).is_finite()) && state.all(|value| value.is_finite())
    }
}

fn step(stepper: &mut Stepper, session: &Session, batch: &Batch, step: usize) -> StepOutcome {
    stepper.step(batch.clone(), step, LEARNING_RATE, &*session.task).expect("there is a scale to go on with")
}

fn scale(stepper: &Stepper) -> f32 {
    stepper.loss_scale.expect("half precision has one").scale()
}

#[test]
fn of_a_thousand_injected_infinities_none_reaches_the_weights() {
    let (session, injection) = perceptron("fp16");
    let batches = digits::batches(&session, 20);
    let mut stepper = new_stepper(&session).unwrap().0;
    let mut random = Generator::at(Key::new(11));
    let (mut injected, mut steps) = (0, 0);
    let mut before = Everything::of(&stepper);
    while injected < 1000 {
        let poison = random.chance(0.6).then(|| Poison {
            parameter: random.below(PARAMETERS),
            element: random.below(10_000),
            value: [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3)],
        });
        *injection.lock().unwrap() = poison;
        // More overflows in a row than a training survives.
        if scale(&stepper) < 1.0 {
            stepper.loss_scale = Some(LossScale::default());
        }
        let (scale_before, outcome) =
            (scale(&stepper), step(&mut stepper, &session, &batches[steps % batches.len()], steps));
        let after = Everything::of(&stepper);
        assert!(after.is_finite(), "step {steps} with {poison:?}");
        assert_eq!(outcome.is_skipped, poison.is_some(), "step {steps} with {poison:?}");
        assert!((after == before) == poison.is_some(), "step {steps} with {poison:?}");
        assert_eq!(scale(&stepper), if poison.is_some() { scale_before / 2.0 } else { scale_before });
        before = after;
        injected += usize::from(poison.is_some());
        steps += 1;
    }
    println!("{injected} of {steps} steps were poisoned; none of them changed a parameter");
}

#[test]
fn a_forward_that_overflows_leaves_the_running_statistics_as_they_were() {
    let session = digits::session(
        "model = { name = 'resnet18', stem = 'small', width = 2 }
         data = { source = 'digits', workers = 0 }
         train = { batch = 16 }
         optimizer = { name = 'sgd', momentum = 0.9 }
         memory = { precision = 'fp16', micro_batch = 8 }",
    );
    let batches = digits::batches(&session, 6);
    let mut stepper = new_stepper(&session).unwrap().0;
    // In the second micro-batch: the first has changed the statistics by then.
    let spiked = |batch: &Batch, value| {
        let mut batch = batch.clone();
        let Values::Floats(pixels) = &mut batch.input else { panic!("images are floats") };
        pixels[12 * 64 + 20] = value;
        batch
    };
    // The scale that a training starts with is too large for some.
    for index in 0..10 {
        step(&mut stepper, &session, &batches[0], index);
    }
    for (index, batch) in batches.iter().enumerate() {
        assert!(!step(&mut stepper, &session, batch, 3 * index).is_skipped, "batch {index}");
        let (before, scale_before) = (Everything::of(&stepper), scale(&stepper));
        for (again, value) in [f32::INFINITY, f32::NAN].into_iter().enumerate() {
            let outcome = step(&mut stepper, &session, &spiked(batch, value), 3 * index + again + 1);
            // By its gradients alone: a rectifier makes 0 of what is not a number, so that the loss may be finite.
            assert!(outcome.is_skipped, "a spike of {value}");
            assert!(Everything::of(&stepper) == before, "a spike of {value} changed something");
        }
        assert_eq!(scale(&stepper), scale_before / 4.0);
    }
    assert!(Everything::of(&stepper).is_finite());
}

#[test]
fn the_scale_doubles_after_its_interval() {
    let (session, _) = perceptron("fp16");
    let mut stepper = new_stepper(&session).unwrap().0;
    assert_eq!(stepper.loss_scale, Some(LossScale::default()));
    stepper.loss_scale = Some(LossScale::with_growth_interval(3));
    for (index, batch) in digits::batches(&session, 7).iter().enumerate() {
        step(&mut stepper, &session, batch, index);
    }
    let scale = stepper.loss_scale.unwrap();
    assert_eq!((scale.scale(), scale.good_steps(), scale.skipped_steps()), (4.0 * 65_536.0, 1, 0));
}

#[test]
fn where_nothing_overflows_the_scale_changes_no_bit() {
    // A layer that computes in 32 bits in any precision: what is left is the scale, a power of two.
    let train = |precision: &str| {
        let (session, _) = perceptron(precision);
        let mut stepper = new_stepper(&session).unwrap().0;
        let mut losses = Vec::new();
        for (index, batch) in digits::batches(&session, 20).iter().enumerate() {
            losses.push(host::scalar(step(&mut stepper, &session, batch, index).loss.unwrap()).to_bits());
        }
        (losses, Everything::of(&stepper), stepper.loss_scale)
    };
    let (losses, scaled, scale) = train("fp16");
    assert!(scale.is_some());
    for precision in ["fp32", "bf16"] {
        let (plain_losses, plain, scale) = train(precision);
        assert!(scale.is_none(), "{precision} has the range that it needs");
        assert!(scaled == plain && losses == plain_losses, "{precision}");
    }
}

#[test]
fn where_no_scale_helps_training_ends_and_the_model_is_what_it_was() {
    let (session, injection) = perceptron("fp16");
    let batch = digits::batches(&session, 1).remove(0);
    let mut stepper = new_stepper(&session).unwrap().0;
    step(&mut stepper, &session, &batch, 0);
    let before = Everything::of(&stepper);
    *injection.lock().unwrap() = Some(Poison { parameter: 3, element: 5, value: f32::INFINITY });
    for index in 1..=30 {
        assert!(step(&mut stepper, &session, &batch, index).is_skipped);
    }
    let error = stepper.step(batch, 31, LEARNING_RATE, &*session.task).unwrap_err();
    assert!(matches!(error, oomph_engine::EngineError::LossScale { step: 32, .. }), "{error}");
    insta::assert_snapshot!(
        format!("{error}\nhint: {}", error.hint().unwrap()),
        @"
    the gradients of step 32 are infinite or not a number even at a loss scale of 2^-14 (learning rate 0.001)
    hint: set `memory.precision=bf16`, which has the range of 32 bits and needs no loss scale, or lower `optimizer.lr`
    "
    );
    assert!(Everything::of(&stepper) == before);
}
