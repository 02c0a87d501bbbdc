//! Batch normalisation with its neighbours in a residual network: the residual addition and the ReLU.
//!
//! Letters: B batch, C channels, S = H·W positions, n = B·S values of a channel, P ≤ 1024 parts of a channel. A channel has
//! more than one part where it has 4096 values or more, and there are less than 1024 channels.
//!
//! Images lie channels-first or channels-last in memory. Outputs have the order of the input that was normalised, and other
//! images are copied if they have another order.

mod affine;
mod apply;
mod backward;
mod channel_parts;
mod channels_last;
mod moments;
mod rectify;
mod statistics;
mod values;

pub use affine::Affine;
pub use apply::normalise;
pub use backward::{input_gradient, normalise_backward, sums};
pub use moments::moments;
pub use rectify::rectify_backward;
pub use statistics::{Statistics, StatisticsStep, statistics};
pub use values::{Addend, Moments, NormGradients, NormInput, NormSums};
