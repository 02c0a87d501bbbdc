use std::fmt::Debug;

/// The other replicas that compute on parts of the same batch, for an operation over the whole batch: synchronised batch
/// normalisation.
///
/// Every replica runs the same operations in the same order, so that each sum meets the same sum of all others.
pub trait Peers: Send + Sync + Debug {
    /// Replaces `values` by their sums over all replicas (an all-reduce): every replica gets the same sums.
    ///
    /// On failure `values` stay unchanged, and the owner of the replicas reports the error after the step.
    fn sum(&self, values: &mut [f64]);
}
