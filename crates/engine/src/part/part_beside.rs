//! What a device does beside the segments of a micro-batch.

use oomph_model::{AnyTensor, Named, Stages};

use super::{release::Release, segments::Beside};
use crate::{
    EngineError,
    ranks::{Bucket, Reduction, Weights, completed},
    watch::Watch,
};

/// Gathers parameters, reduces gradients and releases them.
///
/// In the last micro-batch the gradients of a segment are final after its backward. Their all-reduce starts, or their parameters take
/// the step. Where gradients are released, those of earlier micro-batches are added at once too. Where they are sharded, those of
/// every micro-batch are reduced.
pub(super) struct PartBeside<'p, 'a> {
    pub(super) buckets: &'a [Bucket],
    pub(super) is_last: bool,
    pub(super) watch: Option<&'p mut (dyn Watch + 'static)>,
    pub(super) reduction: Option<&'p mut Reduction>,
    pub(super) weights: Option<&'p mut Weights>,
    pub(super) release: Option<&'p mut Release>,
    /// The sums of the gradients of earlier micro-batches.
    pub(super) sums: &'p mut Named<AnyTensor>,
}

impl Beside for PartBeside<'_, '_> {
    fn watch(&mut self) -> Option<&mut (dyn Watch + 'static)> {
        self.watch.as_deref_mut()
    }

    fn gathers(&self) -> bool {
        self.weights.is_some()
    }

    fn lend(&mut self, model: &mut Stages) -> Result<(), EngineError> {
        self.weights.as_mut().map_or(Ok(()), |weights| weights.lend(model))
    }

    fn before(&mut self, model: &mut Stages, segment: usize, next: Option<usize>) -> Result<(), EngineError> {
        let Some(weights) = &mut self.weights else { return Ok(()) };
        weights.gather(model, segment, next, self.watch.as_deref_mut())
    }

    fn after_forward(&mut self, model: &mut Stages, segment: usize, keeps: bool) {
        if let (Some(weights), false) = (&mut self.weights, keeps) {
            weights.divide(model, segment, false);
        }
    }

    fn after_backward(
        &mut self,
        model: &mut Stages,
        segment: usize,
        newest: &mut Named<AnyTensor>,
    ) -> Result<(), EngineError> {
        if let Some(weights) = &mut self.weights {
            weights.divide(model, segment, true);
        }
        let Self { buckets, is_last, watch, reduction, release, sums, .. } = self;
        match (reduction, release) {
            (Some(reduction), release) if *is_last || reduction.is_of_each_micro_batch() => {
                reduction.pass(segment, sums, newest, watch.as_deref_mut())?;
                // While the newest sum is underway, the one before arrives.
                match release.as_mut().filter(|_| *is_last) {
                    Some(release) => {
                        while let Some((bucket, sums)) = reduction.take_one_but(1)? {
                            release.step(model, &buckets[bucket], sums, watch.as_deref_mut())?;
                        }
                        Ok(())
                    }
                    None if reduction.is_of_each_micro_batch() => {
                        reduction.add_all_but(1, watch.as_deref_mut())
                    }
                    None => Ok(()),
                }
            }
            (_, Some(release)) => {
                let complete = completed(&buckets[segment], sums, newest);
                if *is_last {
                    return release.step(model, &buckets[segment], complete, watch.as_deref_mut());
                }
                sums.extend(complete);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }
}
