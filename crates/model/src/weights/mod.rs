//! Weights from files: of PyTorch and torchvision, and our own checkpoints'.
//!
//! - [`WeightFile`]: what is in a file, safetensors or `.pth`; nothing in it is run.
//! - [`fit()`]: what of it goes where in a model, or all that does not fit.
//! - [`load`]: puts it there.

mod element;
mod error;
mod file;
mod fit;
mod load;
mod pytorch;
mod safetensors;
mod source;
mod stored;

pub use error::{FormatError, WeightsError};
pub use file::{StoredTensor, WeightFile, read_bytes};
pub use fit::{Fit, Mismatch, Wanted, fit, wanted};
pub use load::load;
