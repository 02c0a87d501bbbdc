//! Checks that only training needs, before anything executes.

use oomph_config::Interval;
use oomph_core::Split;
use oomph_data::SampleOrder;
use oomph_engine::session::{Session, train_order};

use crate::{
    error::PlanError,
    planning::{check_micro_batch, eval_batch, eval_order_of, micro_batch},
};

/// Checks that the training set and the held-out set have at least one batch, and that the model can be trained on the
/// largest and the smallest micro-batch of an epoch. Executes nothing.
///
/// # Errors
/// [`PlanError::NoBatches`], [`PlanError::Rest`], [`PlanError::Uneven`], or the error of the model.
pub fn check_training(session: &Session) -> Result<(), PlanError> {
    let config = &session.config;
    check_batches(session, Split::Train, train_order(session).batches(), config.train.batch)?;
    if config.train.eval_every != Interval::Never {
        check_batches(session, Split::Test, eval_order(session).batches(), eval_batch(session))?;
    }
    check_micro_batch(session, micro_batch(session))
}

/// The order in which this rank sees its part of the held-out set.
pub fn eval_order(session: &Session) -> SampleOrder {
    let replicas = &session.replicas;
    eval_order_of(session, eval_batch(session), replicas.world_size())
        .shard(replicas.rank(), replicas.world_size())
}

fn check_batches(session: &Session, split: Split, batches: usize, batch: usize) -> Result<(), PlanError> {
    if batches > 0 {
        return Ok(());
    }
    Err(PlanError::NoBatches { split, samples: session.source.len(split), batch })
}
