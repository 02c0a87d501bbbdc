//! Your own model, data source and loss with every command of oomph: a small network with the focal loss classifies the
//! points of two intertwined spirals.
//!
//! ```sh
//! cargo run --release --example custom_model -- train    --config examples/custom_model.toml
//! cargo run --release --example custom_model -- evaluate --config examples/custom_model.toml
//! cargo run --release --example custom_model -- summary  --config examples/custom_model.toml
//! cargo run --release --example custom_model -- config   --config examples/custom_model.toml
//! ```
//!
//! In your own crate this file is `src/main.rs`, and `oomph` is the only dependency.

use std::{f32::consts::PI, process::ExitCode, sync::Arc};

// `derive(Module)` generates paths that start with `burn`, so the name must be in scope.
use oomph::burn::{
    self,
    module::Module,
    nn::{Linear, LinearConfig},
    tensor::{
        Int, Tensor,
        activation::{log_softmax, relu},
    },
};
use oomph::{
    AnyTensor, Architecture, ConfigError, DataError, DeviceTargets, Generator, Init, InputSpec, Key,
    ModelError, OpenContext, OpenSource, Pass, Registry, Sample, SampleError, SampleSpec, Section, Source,
    Split, Stage, Stages, Target, TargetSpec, Task, TaskError, Values,
};

// Measures the memory of training.
oomph::install_meter!();

fn main() -> ExitCode {
    let registry = Registry::builtin()
        .with_model("mlp", mlp)
        .with_source("spirals", spirals)
        .with_task("focal", |_| Ok(Arc::new(Focal { gamma: 2.0 })));
    oomph::run(registry)
}

// The model -----------------------------------------------------------------------------------------------------------

/// Reads a multilayer perceptron from `[model]`: `hidden` units in each of `layers` layers.
fn mlp(settings: &Section) -> Result<Architecture, ConfigError> {
    let hidden = settings.integer("hidden", 32, 1..=4096)?;
    let layers = settings.integer("layers", 2, 1..=32)?;
    Ok(Architecture::new("mlp", move |spec, init| {
        let hidden_layers = (0..layers).fold(Stages::new(), |stages, index| {
            let input = if index == 0 { spec.input.elements() } else { hidden };
            stages.with(format!("hidden.{index}"), Hidden { linear: linear(init, input, hidden) })
        });
        let head = Head { linear: linear(init, hidden, spec.target.outputs()) };
        Ok(hidden_layers.with("head", head))
    }))
}

fn linear(init: &Init, input: usize, output: usize) -> Linear {
    LinearConfig::new(input, output).init(init.device())
}

/// A linear layer and a rectifier: `[B, I]` to `[B, U]`.
#[derive(Module, Debug)]
struct Hidden {
    linear: Linear,
}

impl Stage for Hidden {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        Ok(relu(self.linear.forward(x)).into())
    }
}

/// The last linear layer: `[B, U]` to logits `[B, K]`.
#[derive(Module, Debug)]
struct Head {
    linear: Linear,
}

impl Stage for Head {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        Ok(self.linear.forward(x).into())
    }
}

// The data ------------------------------------------------------------------------------------------------------------

/// Reads the spirals from `[data]`: `turns`, `noise`, `train_samples`, `test_samples`.
fn spirals(settings: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(SpiralSettings {
        turns: settings.number("turns", 1.0, 0.1..=4.0)? as f32,
        noise: settings.number("noise", 0.02, 0.0..=1.0)? as f32,
        samples: [
            settings.integer("train_samples", 2000, 1..=1_000_000)?,
            settings.integer("test_samples", 500, 1..=1_000_000)?,
        ],
    }))
}

#[derive(Clone)]
struct SpiralSettings {
    turns: f32,
    noise: f32,
    samples: [usize; 2],
}

impl OpenSource for SpiralSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        Ok(Arc::new(Spirals {
            settings: self.clone(),
            spec: SampleSpec {
                input: InputSpec::Vector { features: 2 },
                target: TargetSpec::Class { count: 2 },
            },
            key: Key::new(context.seed).with_name("spirals"),
        }))
    }
}

/// Points of the plane on two arms, one per class. Nothing is stored: the seed and the index determine a point.
struct Spirals {
    settings: SpiralSettings,
    spec: SampleSpec,
    key: Key,
}

impl Source for Spirals {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => self.settings.samples[0],
            Split::Test => self.settings.samples[1],
        }
    }

    fn sample(&self, split: Split, index: usize, _augment: Option<Key>) -> Result<Sample, SampleError> {
        let SpiralSettings { turns, noise, .. } = self.settings;
        let arm = index % 2;
        let mut random = Generator::at(self.key.with_name(&split.to_string()).with(index as u64));
        // The square root spreads the points evenly along the arm.
        let along = random.uniform().sqrt();
        let angle = 2.0 * PI * turns * along + PI * arm as f32;
        let mut near = |place: f32| place + noise * random.normal();
        let point = vec![near(along * angle.cos()), near(along * angle.sin())];
        Ok(Sample { input: Values::Floats(point), target: Target::Class(arm) })
    }
}

// The loss ------------------------------------------------------------------------------------------------------------

/// The focal loss −(1 − p)^γ log p, where p is the probability of the right class. Samples that the model classifies with
/// confidence count less (Lin et al. 2017, arXiv:1708.02002).
struct Focal {
    gamma: f32,
}

impl Focal {
    /// Logits `[B, K]` and classes `[B]`.
    fn parts(output: &AnyTensor, targets: &DeviceTargets) -> Result<(Tensor<2>, Tensor<1, Int>), TaskError> {
        let DeviceTargets::Classes(classes) = targets else {
            return Err(TaskError::Targets { task: "focal", expected: "classes", found: "values" });
        };
        let logits = output.clone().float::<2>().ok_or_else(|| TaskError::Output {
            task: "focal",
            expected: "[B, classes]".into(),
            found: output.dims(),
        })?;
        Ok((logits, classes.clone()))
    }
}

impl Task for Focal {
    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let (logits, classes) = Self::parts(output, targets)?;
        let [batch, _] = logits.dims();
        let log_p = log_softmax(logits, 1).gather(1, classes.reshape([batch, 1])).reshape([batch]);
        let unsure = log_p.clone().exp().neg().add_scalar(1.0).powf_scalar(self.gamma);
        Ok((unsure * log_p).mean_dim(0).neg())
    }

    fn correct(&self, output: &AnyTensor, targets: &DeviceTargets) -> Option<Tensor<1>> {
        let (logits, classes) = Self::parts(output, targets).ok()?;
        let predicted: Tensor<1, Int> = logits.argmax(1).reshape([classes.dims()[0]]);
        Some(predicted.equal(classes).float().sum_dim(0))
    }
}
