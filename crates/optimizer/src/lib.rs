//! Optimizers and their state, and the state of a training on the host, as checkpoints hold it.
//!
//! - [`Optimizer`]: those of Burn, those that Burn lacks, and SGD, Adam and Lion by kernels of oomph, with state in 32, 16 or 8 bits.
//! - [`record`]: copies of parameters, carried state and optimizer state on the host.
//! - [`tensor_file`]: these as the bytes of a safetensors file.
//!
//! ```
//! use oomph_optimizer::{HostTensor, tensor_file};
//!
//! let tensor = HostTensor { shape: vec![2], values: vec![1.0, -0.5] };
//! let file = tensor_file::encode(&[("weight".to_owned(), tensor.clone())].into())?;
//! assert_eq!(tensor_file::decode(&file)?["weight"], tensor);
//! # Ok::<(), oomph_optimizer::record::RecordError>(())
//! ```
//!
//! It opens no files and knows no steps, devices or ranks: the engine does.

mod adafactor;
mod check;
mod group;
mod in_place;
mod lion;
mod offload;
mod optimizer;
mod packed;
#[doc(hidden)]
pub mod parsers;
mod placeholder;
pub mod record;
mod state;
pub mod tensor_file;
#[cfg(test)]
mod tests;
mod walk;

pub use check::check_record;
pub use optimizer::Optimizer;
#[doc(hidden)]
pub use placeholder::placeholder;
pub use record::HostTensor;
pub use walk::names_of;
