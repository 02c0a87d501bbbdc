//! oomph trains neural networks with the memory always in view.
//!
//! As a program it trains oomph's own models: `oomph train`, `evaluate`, `summary`, `config`, `devices`. As a
//! library it trains yours, with every command, every config key and every checkpoint working the same:
//!
//! - [`Stage`]: a part of a model, a Burn module. [`Stages`] is the chain of them that is trained.
//! - [`Architecture`]: how a model is made from `[model]` settings and the shape of the samples.
//! - [`Source`]: your data. [`Task`]: how an output is compared with a target.
//! - [`Registry`]: all of these by name. [`run`] is the command line over a registry.
//! - [`open`], [`train`] and [`evaluate`]: the same from code, without a command line.
//!
//! A whole program with a model of its own, which `mine train --set model.name=mlp` then trains:
//!
//! ```no_run
//! use oomph::burn::{self, module::Module, nn, tensor::activation::relu};
//! use oomph::{AnyTensor, Architecture, Init, ModelError, Pass, Registry, Stage, Stages};
//!
//! oomph::install_meter!(); // counts the memory of training on the CPU
//!
//! /// Any input, flattened, through a linear layer.
//! #[derive(Module, Debug)]
//! struct Dense {
//!     linear: nn::Linear,
//!     last: bool,
//! }
//!
//! impl Stage for Dense {
//!     fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
//!         let x = match input.rank() {
//!             4 => pass.float::<4>(input)?.flatten::<2>(1, 3),
//!             _ => pass.float::<2>(input)?,
//!         };
//!         let x = self.linear.forward(x);
//!         Ok(if self.last { x } else { relu(x) }.into())
//!     }
//! }
//!
//! fn dense(sizes: [usize; 2], last: bool, init: &Init) -> Dense {
//!     Dense { linear: nn::LinearConfig::new(sizes[0], sizes[1]).init(init.device()), last }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let registry = Registry::builtin().with_model("mlp", |settings| {
//!         let hidden = settings.integer("hidden", 64, 1..)?;
//!         Ok(Architecture::new("mlp", move |spec, init| {
//!             Ok(Stages::new()
//!                 .with("hidden", dense([spec.input.elements(), hidden], false, init))
//!                 .with("head", dense([hidden, spec.target.outputs()], true, init)))
//!         }))
//!     });
//!     oomph::run(registry)
//! }
//! ```
//!
//! Use [`burn`] from here: oomph pins it exactly, and another version's tensors would not fit.
//!
//! It downloads nothing, and knows nothing of clusters' queues and web dashboards.

pub use burn;
/// Plans, what `auto` chooses, and what makes a training fit.
pub use oomph_advice as advice;
pub use oomph_cli::run;
/// The configuration: sections, layers, origins, errors.
pub use oomph_config as config;
/// Data sources, transforms and the loader.
pub use oomph_data as data;
/// Checks of the machine, and the meaning of low-level errors.
pub use oomph_doctor as doctor;
/// The training step.
pub use oomph_engine as engine;
/// The meter.
pub use oomph_memory as memory;
/// Makes the counting allocator the global one of this binary, so that memory is measured on the CPU. Once, at the
/// root of `main.rs`.
pub use oomph_memory::install_meter;
/// Stages, layers and the built-in models.
pub use oomph_model as model;
/// Checkpoints, run directories and events.
pub use oomph_runs as runs;
/// What an evaluation tells beside its loss.
pub use oomph_scores as scores;
/// Memory timelines, planned and measured, and their exporters.
pub use oomph_timeline as timeline;
/// The training loop, its session and its registry.
pub use oomph_trainer as trainer;

pub use oomph_advice::{
    BatchSearch,
    out_of_memory::{Advice, Kept, OutOfMemory, OutOfMemoryReport, PlannedTraining, advise},
    planning::{BatchNeed, PlanOptions, PlannedCut, largest_batch, plan, plan_cut},
};
pub use oomph_config::{Config, ConfigError, Section, Sources};
pub use oomph_core::{
    Bytes, Generator, InputSpec, Key, Mode, Phase, SampleSpec, Split, TargetSpec, phase, scope,
};
pub use oomph_data::{
    DataError, ImageReader, OpenContext, OpenEvent, OpenSource, Sample, SampleError, Source, Target, Values,
    cifar10, csv, digits, folder, idx, synthetic, text,
};
pub use oomph_engine::{
    exhausted::Shortage,
    session::Session,
    step::{StepOutcome, Stepper},
    task::{Classification, DeviceTargets, MultiLabel, Regression, Task, TaskError},
    watch::Watch,
};
pub use oomph_model::{
    AnyTensor, Architecture, Init, Kernels, LayerKind, ModelError, Named, Pass, Policy, Stage, Stages,
    Summary, cross_entropy, differentiable, layers,
    recurrent::{gru, lstm},
    resnet, summarize,
};
pub use oomph_plan::Backend;
pub use oomph_runs::{Done, Event, Observer, Quiet, Tick};
pub use oomph_trainer::{
    Evaluation, Registry, Resume, SessionError, Stop, StopReason, TrainError, TrainOptions, evaluate,
    new_stepper, open, open_to_plan,
    predict::predict_images,
    profile::{Profile, ProfileOptions, profile},
    train,
};
