//! Gradients against central differences of the forward alone: a witness that shares no code with backward.

use burn::tensor::Device;
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_model::{
    AnyTensor, Architecture, Init, Kernels, Named, Pass, Policy, Stages, autodiff,
    recurrent::{gru, lstm},
    resnet,
};

use crate::{
    compare::{Comparison, norm},
    formula::{self, Spread, signed_units},
};

/// Random directions in which each parameter is moved.
const DIRECTIONS: usize = 8;
const BATCH: usize = 4;
const UNIT: Spread = Spread { center: 0.0, half: 1.0 };

/// How far a parameter is moved, up to a factor of √3: truncation falls with its square, rounding with its inverse.
const LENGTH: f64 = 1e-2;
/// Relative, over all directions of a parameter.
const TOLERANCE: f64 = 1e-2;
/// The least size of a change that is asked to be right relative to itself, as a share of the typical one. Below are
/// gradients that are zero but for rounding: of a shift that the next batch norm takes out again.
const FLOOR: f64 = 0.1;

#[test]
fn gradients_of_basic_blocks_are_those_of_central_differences() {
    // The stem, two plain blocks, and one with a stride and a downsample.
    check::<4>("basic blocks", &blocks("resnet18", 4));
}

#[test]
fn gradients_of_bottlenecks_are_those_of_central_differences() {
    // The stem, a bottleneck with a downsample, two plain ones, and one with a stride.
    check::<4>("bottlenecks", &blocks("resnet50", 5));
}

#[test]
fn gradients_of_recurrent_layers_are_those_of_central_differences() {
    let spec = SampleSpec {
        input: InputSpec::Sequence { steps: 6, features: 4 },
        target: TargetSpec::Class { count: 3 },
    };
    let models: [(&str, ReadModel); 2] = [("lstm", lstm), ("gru", gru)];
    for (name, read) in models {
        for kernels in [Kernels::Cpu, Kernels::Composed] {
            let chain = Chain::new(read, "hidden = 5\nlayers = 2", &spec, 3);
            let policy = Policy { kernels, ..Policy::default() };
            check::<2>(&format!("{name} by {kernels:?}"), &Chain { policy, ..chain });
        }
    }
}

type ReadModel = fn(&Section) -> Result<Architecture, ConfigError>;

/// Moves each parameter by itself: the loss must change as its gradient says.
fn check<const D: usize>(what: &str, chain: &Chain) {
    let gradients = chain.gradients::<D>();
    let mut changes = Vec::new();
    chain.plain.visit(&mut |info, parameter| {
        if let Some(gradient) = gradients.get(info.name) {
            changes.push(chain.change(info.name, &parameter.to_host().unwrap(), gradient));
        }
    });
    let foretold: Vec<_> = changes.iter().map(|change| change.foretold).collect();
    let typical = norm(&foretold) / (foretold.len() as f64).sqrt();
    let mut comparison = Comparison::new(format!("{what} by differences"), TOLERANCE);
    for Change { name, foretold, wrong } in changes {
        comparison.error(&name, wrong / foretold.max(FLOOR * typical));
    }
    comparison.finish();
}

/// How the loss changed in all directions of one parameter, as norms.
struct Change {
    name: String,
    /// By the gradient.
    foretold: f64,
    /// The difference between that and what happened.
    wrong: f64,
}

fn moved(parameter: &[f32], seed: &str, length: f64) -> Vec<f32> {
    let share = length / (parameter.len() as f64).sqrt();
    let by = signed_units(seed).map(|unit| unit * share);
    parameter.iter().zip(by).map(|(value, by)| (f64::from(*value) + by) as f32).collect()
}

/// The first stages of a model, whose output is weighed into one number by a fixed random tensor.
struct Chain {
    model: Stages,
    /// The same parameters off the graph.
    plain: Stages,
    stages: usize,
    input: AnyTensor,
    policy: Policy,
}

/// The first stages of a small ResNet.
fn blocks(name: &str, stages: usize) -> Chain {
    let spec = SampleSpec {
        input: InputSpec::Image { channels: 2, height: 8, width: 8 },
        target: TargetSpec::Class { count: 10 },
    };
    let settings = format!("name = '{name}'\nstem = 'small'\nwidth = 4");
    let mut chain = Chain::new(resnet, &settings, &spec, stages);
    chain.model.map(&mut |info, tensor| match away_from_zero(info.name, tensor.elements()) {
        Some(values) => AnyTensor::floats(values, &tensor.dims(), &Device::flex()).tracked(info.trainable),
        None => tensor,
    });
    Chain { plain: chain.model.inference(), ..chain }
}

/// Weights and biases of a batch norm with which no ReLU input comes near zero, where the loss would bend and the
/// differences be off by percents: inputs of even channels are always positive, of odd ones always negative.
fn away_from_zero(name: &str, channels: usize) -> Option<Vec<f32>> {
    let (module, leaf) = name.rsplit_once('.')?;
    match leaf {
        "bias" if module.contains("bn") => {
            Some((0..channels).map(|channel| if channel % 2 == 0 { 1.0 } else { -1.0 }).collect())
        }
        "weight" if module.contains("bn") => {
            Some(formula::values(name, channels, Spread { center: 0.15, half: 0.1 }))
        }
        _ => None,
    }
}

impl Chain {
    fn new(
        read: impl Fn(&Section) -> Result<Architecture, ConfigError>,
        settings: &str,
        spec: &SampleSpec,
        stages: usize,
    ) -> Self {
        let architecture = read(&Section::from_toml("model", settings).unwrap()).unwrap();
        let model = architecture.build(spec, &Init::new(&Device::flex().autodiff(), 3)).unwrap();
        let shape = [vec![BATCH], spec.input.shape()].concat();
        let values = formula::values("finite differences/input", shape.iter().product(), UNIT);
        let input = AnyTensor::floats(values, &shape, &Device::flex());
        Self { plain: model.inference(), model, stages, input, policy: Policy::default() }
    }

    /// A forward in training.
    fn forward(&self, model: &Stages, input: AnyTensor) -> AnyTensor {
        let mut pass = Pass::train(Key::new(0)).with_policy(self.policy);
        let forward = |activation, stage| model.forward_stage(stage, activation, &mut pass);
        (0..self.stages).try_fold(input, forward).unwrap()
    }

    /// Moves one parameter there and back in every direction.
    fn change(&self, name: &str, parameter: &[f32], gradient: &[f32]) -> Change {
        let (mut foretold, mut wrong) = (Vec::new(), Vec::new());
        for direction in 0..DIRECTIONS {
            let seed = format!("finite differences/{name}/{direction}");
            let [there, back] = [LENGTH, -LENGTH].map(|length| moved(parameter, &seed, length));
            // The move as it came out in float32.
            let moves = there.iter().zip(&back).map(|(there, back)| f64::from(*there) - f64::from(*back));
            let expected: f64 = moves.zip(gradient).map(|(by, slope)| by * f64::from(*slope)).sum();
            foretold.push(expected);
            wrong.push(self.loss(name, &there) - self.loss(name, &back) - expected);
        }
        Change { name: name.to_owned(), foretold: norm(&foretold), wrong: norm(&wrong) }
    }

    fn weights(count: usize) -> Vec<f32> {
        formula::values("finite differences/weights", count, UNIT)
    }

    /// The gradients by backward.
    fn gradients<const D: usize>(&self) -> Named<Vec<f32>> {
        let output = self.forward(&self.model, self.input.clone().tracked(false)).float::<D>().unwrap();
        let shape = output.dims();
        let weights = Self::weights(output.shape().num_elements());
        let weights = AnyTensor::floats(weights, &shape, &Device::flex().autodiff()).float::<D>().unwrap();
        let gradients = autodiff::backward((output * weights).sum(), &self.model);
        gradients.into_iter().map(|(name, gradient)| (name, gradient.to_host().unwrap())).collect()
    }

    /// The loss with other values of one parameter, summed in f64.
    fn loss(&self, name: &str, values: &[f32]) -> f64 {
        let mut model = self.plain.clone();
        model.map(&mut |info, tensor| match info.name == name {
            true => AnyTensor::floats(values.to_vec(), &tensor.dims(), &Device::flex()),
            false => tensor,
        });
        let output = self.forward(&model, self.input.clone()).to_host().unwrap();
        let weights = Self::weights(output.len());
        output.iter().zip(weights).map(|(value, weight)| f64::from(*value) * f64::from(weight)).sum()
    }
}
