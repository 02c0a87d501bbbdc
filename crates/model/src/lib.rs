//! Models as chains of stages.
//!
//! - [`Stages`]: a model, the chain of [`Stage`]s run in order. One cut through every model, on which recompute,
//!   placement on several devices and all reports stand.
//! - [`Stage`]: a Burn module whose forward takes one activation and gives one. Users implement it for their own.
//! - [`Pass`]: what one forward carries along: training or evaluating, randomness, updated statistics.
//! - [`Carried`]: what recurrent layers keep from one batch to the next.
//! - [`layers`]: our own convolution, batch normalisation, linear layer, LSTM, embedding, dropout and pooling.
//! - [`resnet()`], [`lstm()`] and [`lstm_lm()`]: the built-in models, read from `[model]` settings.
//! - [`weights`]: weights from files of PyTorch and torchvision, and of checkpoints.
//! - [`Summary`]: a table of the layers of any model, made without allocating its tensors.
//!
//! ```
//! use burn::tensor::Device;
//! use oomph_config::Section;
//! use oomph_core::{InputSpec, SampleSpec, TargetSpec};
//! use oomph_model::{AnyTensor, Init, Pass};
//!
//! let settings = Section::from_toml("model", "name = 'resnet18'\nstem = 'small'\nwidth = 8")?;
//! let architecture = oomph_model::resnet(&settings)?;
//! let spec = SampleSpec {
//!     input: InputSpec::Image { channels: 1, height: 8, width: 8 },
//!     target: TargetSpec::Class { count: 10 },
//! };
//! let model = architecture.build(&spec, &Init::new(&Device::flex(), 42))?;
//! let images = burn::tensor::Tensor::<4>::zeros([2, 1, 8, 8], &Device::flex());
//! let logits = model.forward(AnyTensor::from(images), &mut Pass::eval())?;
//! assert_eq!(logits.dims(), [2, 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It does not train, and knows no data: both are the trainer's.

mod any_tensor;
mod architecture;
pub mod autodiff;
mod backends;
mod carried;
mod error;
mod function;
mod init;
mod kernel;
pub mod layers;
mod loss;
mod lstm;
mod multiply_adds;
mod panic;
mod parameters;
mod pass;
mod peers;
mod policy;
mod resnet;
mod stage;
mod stages;
mod storage;
mod summary;
mod trace;
pub mod weights;

pub use any_tensor::AnyTensor;
pub use architecture::Architecture;
pub use carried::Carried;
pub use error::ModelError;
pub use function::differentiable;
pub use init::Init;
pub use kernel::{AdamStep, Kernels, SgdStep};
pub use loss::cross_entropy;
pub use lstm::{lstm, lstm_lm};
pub use parameters::{Named, ParameterInfo};
pub use pass::Pass;
pub use peers::Peers;
pub use policy::Policy;
pub use resnet::{Depth, ResNet, Stem, resnet, torchvision_name};
pub use stage::Stage;
pub use stages::Stages;
pub use storage::Storage;
pub use summary::{Summary, SummaryRow, blank_input, check_training, parameters_wanted, summarize};
pub use trace::LayerKind;
