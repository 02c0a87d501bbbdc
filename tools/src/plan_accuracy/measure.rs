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
use oomph_advice::{
    PlanError,
    planning::{PlanOptions, STEPS, plan, plan_cut, plan_replicas},
};
use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_engine::session::{Session, train_order};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Architecture, ModelError, Pass, Stage, Stages};
use oomph_runs::Quiet;
use oomph_timeline::{SpanKind, Timeline};
use oomph_trainer::{
    Registry, Stop, evaluate, new_stepper, open,
    profile::{ProfileOptions, profile},
};
use serde::{Deserialize, Serialize};

/// Planned and measured peaks of one training.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Planned peak of training.
    pub(crate) planned_peak_bytes: u64,
    /// Measured peak of three training steps.
    pub(crate) peak_in_use_bytes: u64,
    /// Planned peak of evaluation, the optimizer's state included.
    pub(crate) planned_eval_peak_bytes: u64,
    /// Measured peak of evaluation.
    pub(crate) eval_peak_in_use_bytes: u64,
    /// Time that planning took.
    pub(crate) plan_seconds: f64,
}

/// Relative errors of the planned peaks of training and of evaluation.
pub(crate) fn errors(outcome: &Outcome) -> [f64; 2] {
    let relative = |planned: u64, measured: u64| planned as f64 / measured as f64 - 1.0;
    [
        relative(outcome.planned_peak_bytes, outcome.peak_in_use_bytes),
        relative(outcome.planned_eval_peak_bytes, outcome.eval_peak_in_use_bytes),
    ]
}

/// Plans and trains `config`. Run each case in its own process: a backend keeps some memory until the process ends.
pub(crate) fn measure(config: &str) -> Result<Outcome, Box<dyn Error>> {
    let session = open(Config::from_toml("case", config)?, &registry())?;
    let start = std::time::Instant::now();
    let planned = plan(&session, PlanOptions::default())?;
    let plan_seconds = start.elapsed().as_secs_f64();
    let planned_peak_bytes = highest(&planned, |name| name != "evaluation");
    let planned_eval_peak_bytes = highest(&planned, |name| name == "evaluation");
    let peak = || oomph_memory::read().peak_in_use_bytes.get();
    charge(Account::Device, || {
        let mut stepper = new_stepper(&session)?.0;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, train_order(&session), 0, 0, Some(1), &session.loader)
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

/// Plans and profiles `config`, and gives each of its devices. Run each case in its own process.
pub(crate) fn measure_devices(config: &str) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let session = open(Config::from_toml("case", config)?, &registry())?;
    let start = std::time::Instant::now();
    let planned = planned_devices(&session)?;
    let plan_seconds = start.elapsed().as_secs_f64();
    let options = ProfileOptions { warmup: 0, steps: 3, eval_batches: 1, ..ProfileOptions::default() };
    let profile = profile(&session, options, &mut Quiet)?;
    let is_evaluation = |name: &str| name.starts_with("eval");
    let outcome = |(planned, measured): (&Timeline, &Timeline)| Outcome {
        planned_peak_bytes: highest(planned, |name| !is_evaluation(name)),
        peak_in_use_bytes: highest(measured, |name| !is_evaluation(name)),
        planned_eval_peak_bytes: highest(planned, is_evaluation),
        eval_peak_in_use_bytes: highest(measured, is_evaluation),
        plan_seconds,
    };
    let measured = profile.devices().map(|device| &device.measured);
    Ok(planned.iter().zip(measured).map(outcome).collect())
}

/// The plan of each device, as `oomph plan` makes it.
fn planned_devices(session: &Session) -> Result<Vec<Timeline>, PlanError> {
    let options = PlanOptions::default();
    if let Some(cut) = plan_cut(session, options)? {
        return Ok(cut.parts.into_iter().map(|part| part.timeline).collect());
    }
    let [first, other] = plan_replicas(session, options, STEPS, 1)?;
    let others = std::iter::repeat_n(other, session.world_size() - 1);
    Ok(std::iter::once(first).chain(others).collect())
}

/// The errors of all devices. Replicas of `dp` do not evaluate.
pub(crate) fn device_errors(outcomes: &[Outcome]) -> Vec<f64> {
    let of = |outcome: &Outcome| {
        let [training, evaluation] = errors(outcome);
        [Some(training), (outcome.planned_eval_peak_bytes > 0).then_some(evaluation)]
    };
    outcomes.iter().flat_map(of).flatten().collect()
}

/// The peak of the steps whose names `is_meant` accepts.
fn highest(timeline: &Timeline, is_meant: impl Fn(&str) -> bool) -> u64 {
    let steps = timeline.spans_of(SpanKind::Step).filter(|step| is_meant(timeline.names.text(step.name)));
    steps.map(|step| timeline.peak_within(step.start..step.end).categories.total().get()).max().unwrap_or(0)
}

/// The built-in models, and `own`: a user's model of Burn's layers.
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
