//! Sums over ranks of what each rank knows of its shards of the gradients.

use oomph_config::Clip;
use oomph_kernels::gradients::{Factor, read_sum_of_squares};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Kernels, Named};

use super::{Bucket, Replicas};
use crate::{
    EngineError,
    clip::clip,
    gradients::{listed, scaled},
};

/// Sums over all ranks, or the own value in a plan, which has no other ranks.
#[derive(Clone)]
pub(crate) struct ShardSums {
    pub(crate) replicas: Replicas,
    pub(crate) executes: bool,
}

impl ShardSums {
    /// The sum of a value over all ranks.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn of(&self, value: f64) -> Result<f64, EngineError> {
        Ok(if self.executes { self.replicas.sum(&[value])?[0] } else { value })
    }

    /// Clips the shards of the gradients of a bucket, by the norms of whole gradients. Otherwise as [`clip`].
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn clip(
        &self,
        mut gradients: Named<AnyTensor>,
        bucket: &Bucket,
        limit: Clip,
        kernels: Kernels,
    ) -> Result<Named<AnyTensor>, EngineError> {
        match limit {
            Clip::Value(_) => Ok(clip(gradients, limit, kernels)),
            Clip::GlobalNorm(limit) => {
                let squares = self.of(read_sum_of_squares(&listed(&gradients), kernels)?)?;
                Ok(scaled(gradients, Factor::Number(factor(squares, limit)), kernels))
            }
            Clip::Norm(limit) => {
                let own = bucket.iter().map(|(name, _)| match gradients.get(name) {
                    Some(gradient) => read_sum_of_squares(&[gradient], kernels),
                    None => Ok(0.0),
                });
                let own = charge(Account::Host, || own.collect::<Result<Vec<_>, _>>())?;
                let squares = if self.executes { self.replicas.sum(&own)? } else { own };
                for ((name, _), squares) in bucket.iter().zip(squares) {
                    if let Some(gradient) = gradients.remove(name) {
                        let gradient = gradient.scale(factor(squares, limit));
                        charge(Account::Host, || gradients.insert(name.clone(), gradient));
                    }
                }
                Ok(gradients)
            }
        }
    }
}

/// min(1, limit / (√squares + 1e-6)).
fn factor(squares: f64, limit: f64) -> f32 {
    (limit / (squares.sqrt() + 1e-6)).min(1.0) as f32
}
