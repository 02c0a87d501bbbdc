//! Predicts what a training step will need in memory, from its recorded operations: nothing is executed.
//!
//! - [`Recording`]: the operations of a stretch of training, as Burn's capture device records them, with [`Note`]s of
//!   which phase, stage and tensor they belong to.
//! - [`Backend`]: whose allocator is played. Its rules are in one documented file or folder each, with the sources they
//!   were read from and the measurement they were held against.
//! - [`replay`]: plays the allocator over a recording and gives a [`Timeline`](oomph_memory::Timeline): what is in use
//!   after each operation, for what, and where it was made.
//! - [`cost`]: about how long the operations take, to compare two ways of doing the same.
//!
//! ```
//! use burn_backend::{DType, Shape};
//! use burn_ir::{BaseOperationIr, CreationOpIr, OperationIr, TensorId, TensorIr};
//! use oomph_plan::{Backend, Head, Recording, replay};
//!
//! let tensor = TensorIr::uninit(TensorId::new(1), Shape::new([1024]), DType::F32);
//! let ones = OperationIr::BaseFloat(BaseOperationIr::Ones(CreationOpIr { out: tensor }));
//! let recording = Recording { operations: vec![ones], ..Recording::default() };
//! let head = Head { title: "ones".into(), device: "cuda:0".into(), limit_bytes: None };
//! let timeline = replay(&recording, Backend::Cuda, head);
//! assert_eq!(timeline.peak().categories.total().get(), 4096);
//! ```
//!
//! It records nothing itself and knows no models: that is the trainer's.

mod backend;
mod checkpointing;
mod cost;
mod cuda;
mod flex;
mod layout;
mod machine;
mod recording;
mod replay;

pub use backend::Backend;
pub use cost::{cost, forward_costs};
pub use recording::{Note, Noted, Recording};
pub use replay::{Head, replay};
