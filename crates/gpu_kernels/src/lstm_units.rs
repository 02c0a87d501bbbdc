//! How wide an LSTM may be for its GPU kernels. A build without CUDA knows it too, to plan.

/// The most hidden units. More do not fit into the shared memory that every card gives to a cube: forward, that has two copies of
/// a row's hidden units.
pub const MOST_LSTM_UNITS: usize = 5632;
