use oomph_config::Sharing;
use oomph_engine::session::{Session, train_order};

use crate::error::{Leaves, PlanError};

/// Checks that the model can be trained on a micro-batch, and on the smaller ones that it leaves of a batch and of the last
/// batch of an epoch.
///
/// # Errors
/// [`PlanError::Rest`], [`PlanError::Uneven`], or the error of the model.
pub(crate) fn check_micro_batch(session: &Session, micro_batch: usize) -> Result<(), PlanError> {
    let check = |batch| oomph_model::check_training(&session.architecture, session.spec(), batch);
    check_even_micro_batches(session, micro_batch)?;
    check(micro_batch).map_err(|source| match session.config.device.devices.len() > 1 {
        true => PlanError::Rest { samples: micro_batch, leaves: Leaves::Devices, source },
        false => source.into(),
    })?;
    for (rest, leaves) in rests(session, micro_batch) {
        check(rest).map_err(|source| PlanError::Rest { samples: rest, leaves, source })?;
    }
    Ok(())
}

/// Replicas share statistics in every micro-batch, so all must have the same number of micro-batches.
fn check_even_micro_batches(session: &Session, micro_batch: usize) -> Result<(), PlanError> {
    let world = session.world_size();
    match &session.config.device.sharing {
        Sharing::Ddp(ddp) if ddp.sync_batch_norm && world > 1 => {}
        _ => return Ok(()),
    }
    let (batch, order) = (session.config.train.batch, train_order(session));
    let whole = (order.len() >= batch).then_some(batch);
    for samples in [whole, Some(order.len() % batch).filter(|rest| *rest > 0)].into_iter().flatten() {
        let [most, least] = [samples.div_ceil(world), samples / world];
        if least == 0 || most.div_ceil(micro_batch) != least.div_ceil(micro_batch) {
            return Err(PlanError::Uneven { samples, world });
        }
    }
    Ok(())
}

/// The sizes of the smaller last micro-batches: of every batch, and of the last batch of an epoch.
fn rests(session: &Session, micro_batch: usize) -> Vec<(usize, Leaves)> {
    let whole = session.config.train.batch;
    let last = train_order(session).len() % whole;
    if let Some(scatter) = session.scatter() {
        let mut rests = Vec::new();
        for (batch, leaves) in [(whole, Leaves::Devices), (last, Leaves::LastBatch)] {
            let round = scatter.round(batch, micro_batch);
            for samples in [round.min(batch), batch % round] {
                let rows = scatter.rows(samples).into_iter().map(|rows| rows.len());
                rests.extend(rows.filter(|rows| *rows > 0).map(|rows| (rows, leaves)));
            }
        }
        return rests;
    }
    let batches = [(whole, Leaves::EveryBatch), (last, Leaves::LastBatch)];
    // Some replicas have one sample more than others.
    let shares = |samples: usize| [session.share_of(samples), samples / session.world_size()];
    let rest = |(samples, leaves)| shares(samples).map(|share| (share % micro_batch, leaves));
    batches.into_iter().flat_map(rest).filter(|(rest, _)| *rest > 0).collect()
}
