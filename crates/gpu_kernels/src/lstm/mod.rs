//! A run of time steps of an LSTM layer, forward and backward.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are i, f, g, o
//! side by side, U each. The formulas, and what is rounded to the format of products, are those of the CPU kernels in
//! `oomph-kernels`. Arithmetic has 32 bits, except for the products of inputs, which a card with tensor cores computes in
//! TF32 (10 bits of mantissa) where factors have 32 bits. Sums have a fixed order: equal inputs give equal bits.

mod backward;
mod forward;
mod layout;
mod product;
mod run;
mod steps;

pub use backward::lstm_backward;
pub use forward::lstm_forward;
pub use run::{LstmEnd, LstmGradients, LstmOutputs, LstmStart, LstmSteps};
pub use steps::lstm_input_backward;
