//! Models as chains of stages.
//!
//! - [`Stages`]: a model, a chain of [`Stage`]s run in order. Recompute, placement on several devices and all reports work by
//!   stages.
//! - [`Stage`]: a Burn module whose forward takes one activation and gives one. Users implement it for their own.
//! - [`Pass`]: the context of one forward: training or evaluation, randomness, updated statistics.
//! - [`Carried`]: the state that recurrent layers carry from one batch to the next.
//! - [`layers`]: our own convolution, normalisations, linear layers, LSTM, GRU, attention, embedding, dropout and pooling.
//! - [`resnet()`], [`gpt()`], [`vit()`] and those of [`recurrent`]: the built-in models, read from `[model]` settings.
//! - [`weights`]: weights from files of PyTorch and torchvision, and from checkpoints.
//! - [`onnx_graph()`]: a model as an ONNX graph.
//! - [`Summary`]: a table of the layers of any model, without allocating its tensors.
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
//! The crate neither trains nor knows data. Tensors and kernels are those of `oomph-kernels`.

mod architecture;
pub mod autodiff;
mod carried;
mod error;
mod handover;
mod init;
mod key_value_cache;
pub mod layers;
pub mod lora;
mod loss;
mod multiply_adds;
mod onnx_model;
mod panic;
mod parameters;
mod pass;
mod policy;
pub mod recurrent;
mod resnet;
mod stage;
mod stages;
mod summary;
mod trace;
mod transformer;
pub mod weights;

pub use architecture::{Architecture, UnshownSettings};
pub use carried::Carried;
pub use error::ModelError;
pub use init::Init;
pub use key_value_cache::KeyValueCache;
pub use loss::{binary_cross_entropies, binary_cross_entropy, cross_entropy};
pub use onnx_model::onnx_graph;
pub use oomph_kernels::{AnyTensor, DeviceError, Kernels, Storage, differentiable, norm::Peers};
/// ONNX graphs, which stages add themselves to.
pub use oomph_onnx as onnx;
pub use parameters::{Named, ParameterInfo};
pub use pass::Pass;
pub use policy::Policy;
pub use resnet::{Depth, ResNet, Stem, resnet, torchvision_name};
pub use stage::Stage;
pub use stages::{Stages, map_stages, visit_stages};
pub use summary::{
    Summary, SummaryRow, blank_input, carried_shapes, check_training, parameters_wanted, summarize,
};
pub use trace::LayerKind;
pub use transformer::{gpt, vit};
