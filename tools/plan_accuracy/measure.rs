//! Plans a training, then runs it under the meter.

use std::error::Error;

use burn::{
    module::Module,
    nn::{
        Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
        pool::{MaxPool2d, MaxPool2dConfig},
    },
    tensor::{
        Tensor,
        activation::{gelu, relu},
    },
};
use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_memory::{Account, SpanKind, Timeline, charge};
use oomph_model::{AnyTensor, Architecture, ModelError, Pass, Stage, Stages};
use oomph_trainer::{PlanOptions, Quiet, Registry, Session, Stepper, Stop, evaluate, plan};
use serde::{Deserialize, Serialize};

/// What was planned and what was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Planned for training.
    pub(crate) planned_peak_bytes: u64,
    /// Measured while training, three steps.
    pub(crate) peak_in_use_bytes: u64,
    /// Planned for evaluation, with the optimizer's state beside.
    pub(crate) planned_eval_peak_bytes: u64,
    /// Measured while evaluating.
    pub(crate) eval_peak_in_use_bytes: u64,
    /// How long planning took.
    pub(crate) plan_seconds: f64,
}

/// Relative errors of what is planned for training and for evaluation.
pub(crate) fn errors(outcome: &Outcome) -> [f64; 2] {
    let relative = |planned: u64, measured: u64| planned as f64 / measured as f64 - 1.0;
    [
        relative(outcome.planned_peak_bytes, outcome.peak_in_use_bytes),
        relative(outcome.planned_eval_peak_bytes, outcome.eval_peak_in_use_bytes),
    ]
}

/// In a process of its own: what a backend keeps for ever would else be there before the next measurement.
pub(crate) fn measure(config: &str) -> Result<Outcome, Box<dyn Error>> {
    let session = Session::open(Config::from_toml("case", config)?, &registry())?;
    let start = std::time::Instant::now();
    let planned = plan(&session, PlanOptions::default())?;
    let plan_seconds = start.elapsed().as_secs_f64();
    let planned_peak_bytes = highest(&planned, |name| name != "evaluation");
    let planned_eval_peak_bytes = highest(&planned, |name| name == "evaluation");
    let peak = || oomph_memory::read().peak_in_use_bytes.get();
    charge(Account::Device, || {
        let mut stepper = Stepper::new(&session)?;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, session.train_order(), 0, 0, Some(1), &session.loader)
        });
        for step in 0..3 {
            let batch = charge(Account::Host, || loader.next()).ok_or("the data ended")??;
            stepper.step(batch, step, 0.01, session.task.as_ref())?;
        }
        let peak_in_use_bytes = peak();
        oomph_memory::restart_peak();
        evaluate(&session, &stepper.model, &mut Quiet, &Stop::new())?;
        Ok(Outcome {
            planned_peak_bytes,
            peak_in_use_bytes,
            planned_eval_peak_bytes,
            eval_peak_in_use_bytes: peak(),
            plan_seconds,
        })
    })
}

/// The highest level within the steps that `is_meant` names.
fn highest(timeline: &Timeline, is_meant: impl Fn(&str) -> bool) -> u64 {
    let steps = timeline.spans_of(SpanKind::Step).filter(|step| is_meant(timeline.names.text(step.name)));
    steps.map(|step| timeline.peak_within(step.start..step.end).categories.total().get()).max().unwrap_or(0)
}

/// The built-in models, and one that a user would write with Burn's own layers.
fn registry() -> Registry {
    Registry::builtin().with_model("own", |settings| {
        let hidden = settings.integer("hidden", 64, 1..=65_536)?;
        Ok(Architecture::new("own", move |spec, init| {
            let [channels, height, width] = spec.input.shape()[..] else { return Err(ModelError::Empty) };
            let device = init.device();
            let convolution = Convolution {
                conv: Conv2dConfig::new([channels, 32], [5, 5])
                    .with_padding(PaddingConfig2d::Same)
                    .init(device),
                pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            };
            let hidden_layer = Hidden {
                linear: LinearConfig::new(32 * (height / 2) * (width / 2), hidden).init(device),
                norm: LayerNormConfig::new(hidden).init(device),
                dropout: DropoutConfig::new(0.1).init(),
            };
            let head = Head { linear: LinearConfig::new(hidden, spec.target.outputs()).init(device) };
            Ok(Stages::new().with("convolution", convolution).with("hidden", hidden_layer).with("head", head))
        }))
    })
}

#[derive(Module, Debug)]
struct Convolution {
    conv: Conv2d,
    pool: MaxPool2d,
}

impl Stage for Convolution {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<4>(input)?;
        Ok(self.pool.forward(relu(self.conv.forward(x))).into())
    }
}

#[derive(Module, Debug)]
struct Hidden {
    linear: Linear,
    norm: LayerNorm,
    dropout: Dropout,
}

impl Stage for Hidden {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x: Tensor<2> = pass.float::<4>(input)?.flatten(1, 3);
        Ok(self.dropout.forward(gelu(self.norm.forward(self.linear.forward(x)))).into())
    }
}

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
