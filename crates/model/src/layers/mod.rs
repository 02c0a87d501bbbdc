//! Layers with PyTorch's parameter names and layouts, so that weights move in and out by renaming alone.
//!
//! Dimension letters: B batch, C channels, H height, W width, T time steps, I input features, U hidden units.
//! A layer that refuses its input names itself and both shapes.

mod attention;
mod batch_norm;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod normed;
mod pool;
mod recurrent;
mod residual;
mod row_norm;

pub use attention::SelfAttention;
pub use batch_norm::BatchNorm;
pub use conv::Conv2d;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub(crate) use embedding::tokens;
pub(crate) use linear::Projection;
pub use linear::{Before, Linear};
pub use normed::{Normed, Shortcut};
/// What a recurrent layer reads.
pub use oomph_kernels::recurrent::RecurrentInput;
pub use pool::{MaxPool2d, global_average};
pub use recurrent::{Gru, Lstm, LstmState, last_step};
pub(crate) use recurrent::{looked_up, multiplies_tokens, outnumber};
pub(crate) use residual::{Residual, forked, positioned};
pub use row_norm::RowNorm;
