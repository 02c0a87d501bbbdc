//! Predicts the memory of a training step from its recorded operations. Nothing is executed.
//!
//! - [`Recording`]: operations recorded on Burn's capture device, with [`Note`]s of their phase, stage and tensors.
//! - [`Backend`]: the backend whose allocator is simulated. Its rules are in one documented file or folder each, with
//!   their sources in Burn and the measurements they were tested against.
//! - [`PoolLayout`]: how a GPU's allocator reserves memory for what is in use.
//! - [`replay`]: simulates the allocator over a recording and returns a [`Timeline`](oomph_timeline::Timeline).
//! - [`time`]: the work of the operations, and how long they take.
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
//! // The tensor, and what CubeCL keeps for the arguments of kernels.
//! assert_eq!(timeline.reserved_peak().map(|bytes| bytes.get()), Some(4096 + 16384));
//! ```
//!
//! It records nothing itself and knows no models.

mod allocator_sim;
mod backend;
mod checkpointing;
mod flex;
mod gpu;
mod graph_order;
mod layout;
mod operation;
mod pools;
mod recording;
mod replay;
pub mod time;

pub use backend::Backend;
pub use pools::PoolLayout;
pub use recording::{GraphEnds, Note, Noted, Recording};
pub use replay::{Head, replay, replay_in_pools};
