use std::fmt::Debug;

/// The other replicas of a model that train on their parts of the same batch, as a layer sees them that computes over
/// the whole batch: synchronised batch normalisation.
///
/// Every replica runs the same layers in the same order, so that the sums of one are met by those of all others.
pub trait Peers: Send + Sync + Debug {
    /// Replaces `values` by their sums over all replicas, the same for every one of them. Where that fails they stay as
    /// they are, and whoever knows the replicas says why, once the step is over.
    fn sum(&self, values: &mut [f64]);
}
