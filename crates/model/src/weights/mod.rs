//! Weights from files of PyTorch, torchvision and Hugging Face, and from our own checkpoints.
//!
//! - [`WeightFile`]: the tensors of a file, safetensors or `.pth`; nothing in it is run.
//! - [`fit()`]: assigns the tensors of a file to the parameters of a model, or lists all that do not fit.
//! - [`Layout`]: the names and forms that files have for the parameters of a model.
//! - [`load`]: copies the values into the model.

mod element;
mod error;
mod file;
mod fit;
mod form;
mod header;
mod layout;
mod load;
mod naming;
mod pytorch;
mod safetensors;
mod shown;
mod source;
mod stored;

pub use error::{FormatError, Mismatch, WeightsError};
pub use file::{StoredTensor, WeightFile, read_bytes};
pub use fit::{Fit, Wanted, fit, wanted};
pub use form::TensorForm;
pub use layout::{Layout, Library, TensorPart};
pub use load::load;
