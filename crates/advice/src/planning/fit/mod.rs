//! `memory.fit = "auto"`: the combination of levers that fits the limit in the least planned time.

mod combinations;
mod frontier;
mod search;

use std::borrow::Cow;

use oomph_config::{
    Change, Config, MicroBatch, Precision, Recompute,
    sections::{memory::Gradients, offload::Offload, optimizer::StateFormat, sharing::Shard},
};
use oomph_engine::session::{Session, SplitKey, backend, largest_train_batch};
use oomph_memory::{Account, charge};

use self::combinations::shard_of;
use super::options::PlanOptions;
use crate::{error::PlanError, varied::varied};

pub(super) use combinations::strongest;
pub(crate) use combinations::{Levers, combinations};
pub use frontier::{Frontier, frontier};
pub use search::Fitted;
pub(crate) use search::Search;

/// The session with what `memory.fit = "auto"` chooses for the batch, the backend and the limit of `options`. The session itself
/// where `fit` is `off` or has chosen, and where no limit is known.
///
/// Of all combinations of levers that fit it is the one with the least planned time; of those that take the same time, the one
/// that changes fewer keys. If none fits, it is one with a low planned peak.
///
/// # Errors
/// If the model cannot be planned.
pub fn fitted(session: &Session, options: PlanOptions) -> Result<Cow<'_, Session>, PlanError> {
    match fit_changes(session, options)? {
        Some(changes) => Ok(Cow::Owned(with_choice(session, &changes)?)),
        None => Ok(Cow::Borrowed(session)),
    }
}

/// The changes that `memory.fit = "auto"` chooses. `None` where it does not choose.
///
/// # Errors
/// The errors of [`fitted`].
pub fn fit_changes(session: &Session, options: PlanOptions) -> Result<Option<Vec<Change>>, PlanError> {
    let key = SplitKey {
        batch: options.batch.unwrap_or_else(|| largest_train_batch(session)),
        backend: options.backend.unwrap_or_else(|| backend(session)),
        limit_bytes: options.limit_bytes.or(session.limit_bytes),
    };
    let Some(limit_bytes) = key.limit_bytes.filter(|_| session.awaits_fit()) else { return Ok(None) };
    if let Some(known) = session.fits.get(&key) {
        return Ok(Some(known));
    }
    let choose = || -> Result<_, PlanError> {
        let combinations = combinations(session, Levers::of_config(session, key.backend));
        let search = Search::new(&combinations, session, key, limit_bytes)?;
        match search.fastest()? {
            Some(fastest) => Ok(fastest.changes),
            None => search.leanest(),
        }
    };
    // Ranks choose on threads that work for a device.
    let changes = charge(Account::Host, choose)?;
    session.fits.insert(key, changes.clone());
    Ok(Some(changes))
}

/// The session with a choice of `memory.fit`, which chooses no more.
///
/// # Errors
/// If the changes contradict the configuration.
pub fn with_choice(session: &Session, changes: &[Change]) -> Result<Session, PlanError> {
    Ok(Session { is_fitted: true, ..varied(session, changes)? })
}

/// What `memory.fit = "auto"` chose in an earlier configuration, as changes of this one: a training that resumes keeps it. Keys
/// that this configuration sets stay.
pub fn choice_of(earlier: &Config, config: &Config) -> Vec<Change> {
    let (before, now) = (&earlier.memory, &config.memory);
    let is_free = now.micro_batch.is_none_or(|size| size == MicroBatch::Auto);
    let micro_batch = before.micro_batch.filter(|size| is_free && now.micro_batch != Some(*size));
    let is_free = matches!(now.recompute, Recompute::None | Recompute::Auto);
    let recompute = (is_free && before.recompute != now.recompute).then(|| before.recompute.clone());
    let shard = shard_of(config).zip(shard_of(earlier));
    let shard = shard.and_then(|(now, before)| other(now, before, Shard::None));
    let chosen = [
        micro_batch.map(Change::MicroBatch),
        recompute.map(Change::Recompute),
        other(now.gradients, before.gradients, Gradients::Keep).map(Change::Gradients),
        other(now.offload, before.offload, Offload::default()).map(Change::Offload),
        shard.map(Change::Shard),
        other(now.precision, before.precision, Precision::Fp32).map(Change::Precision),
        other(config.optimizer.state, earlier.optimizer.state, StateFormat::Fp32).map(Change::State),
    ];
    chosen.into_iter().flatten().collect()
}

/// The earlier value, if there is `default` now and another one before.
fn other<T: PartialEq>(now: T, before: T, default: T) -> Option<T> {
    (now == default && before != default).then_some(before)
}
