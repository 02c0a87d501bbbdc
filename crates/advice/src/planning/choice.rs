//! The choice of `auto`: the micro-batch and the recomputed stages that fit the limit in the least time.

use std::borrow::Cow;

use oomph_config::{
    Change, MicroBatch, Recompute,
    sections::{memory::Gradients, offload::Offload, sharing::Shard},
};
use oomph_core::{Bytes, grouped};
use oomph_engine::session::{Session, SplitKey, StepSplit, backend, fixed_split, largest_train_batch};
use oomph_memory::{Account, charge};
use oomph_plan::Backend;

use super::{
    chooser::Chooser,
    chosen::Chosen,
    fit::{fit_changes, fitted},
    options::PlanOptions,
    splitter::Splitter,
};
use crate::error::PlanError;

/// How the session's steps are split: as configured, or as `auto` chooses.
///
/// `auto` chooses the split that fits in the least time. Without a limit it saves nothing. If nothing fits, it chooses a split
/// with a low planned peak.
///
/// # Errors
/// If the model cannot be split over the devices, or refuses every micro-batch.
pub fn choose(session: &Session, key: SplitKey) -> Result<StepSplit, PlanError> {
    let memory = &session.config.memory;
    let is_auto = memory.recompute == Recompute::Auto || memory.micro_batch == Some(MicroBatch::Auto);
    let fixed = fixed_split(session, session.share_of(key.batch));
    let Some(limit_bytes) = key.limit_bytes.filter(|_| is_auto) else { return Ok(fixed) };
    if let Some(known) = session.splits.get(&key) {
        return Ok(known);
    }
    let chooser = Chooser::new(session, key.batch, key.backend, limit_bytes);
    // Ranks choose on threads that work for a device.
    let split = charge(Account::Host, || chooser.choose(&fixed))?;
    session.splits.insert(key, split.clone());
    Ok(split)
}

/// Samples of one forward and backward on one device, as configured or as `auto` chooses.
pub fn micro_batch(session: &Session) -> usize {
    micro_batch_of(session, session.config.train.batch)
}

/// Samples of one forward and backward on one device, for a batch of `batch` samples.
pub fn micro_batch_of(session: &Session, batch: usize) -> usize {
    let key = SplitKey { batch, backend: backend(session), limit_bytes: session.limit_bytes };
    // Planning and training report the error of a batch that the model refuses.
    let options = PlanOptions { batch: Some(batch), ..PlanOptions::default() };
    let session = fitted(session, options).unwrap_or(Cow::Borrowed(session));
    choose(&session, key).map_or_else(|_| session.share_of(batch), |split| split.micro_batch)
}

/// Samples of an evaluation batch on one device.
pub fn eval_batch(session: &Session) -> usize {
    session.config.train.eval_batch.unwrap_or_else(|| micro_batch(session))
}

/// The splitter of the session's steps, with the micro-batch and the recomputed stages that `auto` chooses.
///
/// # Errors
/// The errors of [`choose`].
pub(super) fn chosen_splitter(session: &Session, options: PlanOptions) -> Result<Splitter<'_>, PlanError> {
    let Chosen { batch, backend, split } = chosen(session, options)?;
    Ok(Splitter::new(session, batch, backend, split))
}

/// The batch and the backend of a plan, and the split of its steps, with what `auto` chooses.
///
/// # Errors
/// The errors of [`choose`].
pub(super) fn chosen(session: &Session, options: PlanOptions) -> Result<Chosen, PlanError> {
    let batch = options.batch.unwrap_or_else(|| largest_train_batch(session));
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let limit_bytes = options.limit_bytes.or(session.limit_bytes);
    let mut split = choose(session, SplitKey { batch, backend, limit_bytes })?;
    split.micro_batch = options.micro_batch.unwrap_or(split.micro_batch).min(session.share_of(batch));
    Ok(Chosen { batch, backend, split })
}

/// The memory policy in a few words, with the choice of `auto` for the backend and the limit:
/// `bf16 · recompute stages`.
pub fn describe_policy(session: &Session, backend: Backend, limit_bytes: Option<Bytes>) -> String {
    let key = SplitKey { batch: largest_train_batch(session), backend, limit_bytes };
    // Planning reports the error of a split that cannot be chosen.
    describe_split(session, choose(session, key).ok().as_ref())
}

/// The memory policy in a few words, without what `auto` chooses: `bf16 · recompute auto`.
pub fn describe_settings(session: &Session) -> String {
    describe_split(session, None)
}

/// What `auto` chooses for a batch: `micro-batch 16 · recompute layer1.0`. `None` if nothing is `auto`, or if the batch cannot
/// be split.
pub fn describe_choice(session: &Session, key: SplitKey) -> Option<String> {
    let memory = &session.config.memory;
    let options = PlanOptions {
        batch: Some(key.batch),
        backend: Some(key.backend),
        limit_bytes: key.limit_bytes,
        ..PlanOptions::default()
    };
    if let Some(changes) = fit_changes(session, options).ok()? {
        return Some(describe_changes(&changes));
    }
    let (of_micro_batch, of_recompute) =
        (memory.micro_batch == Some(MicroBatch::Auto), memory.recompute == Recompute::Auto);
    if !of_micro_batch && !of_recompute {
        return None;
    }
    let split = choose(session, key).ok()?;
    let micro_batch = of_micro_batch.then(|| format!("micro-batch {}", grouped(split.micro_batch as u64)));
    let recompute = of_recompute.then(|| match names_of_recomputed(session, &split).as_slice() {
        [] => "no recompute".to_owned(),
        names => format!("recompute {}", names.join(", ")),
    });
    Some([micro_batch, recompute].into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

/// What `memory.fit` chooses, in the words of a policy: `micro-batch 8 · released gradients`.
pub fn describe_changes(changes: &[Change]) -> String {
    let word = |change: &Change| match change {
        // The batch is in the row.
        Change::Batch(_) => None,
        Change::MicroBatch(MicroBatch::Samples(size)) => {
            Some(format!("micro-batch {}", grouped(*size as u64)))
        }
        Change::Recompute(Recompute::None) => Some("no recompute".to_owned()),
        Change::Recompute(Recompute::Named(names)) => Some(format!("recompute {}", names.join(", "))),
        Change::Recompute(named) => named.name().map(|name| format!("recompute {name}")),
        Change::Gradients(Gradients::Release) => Some(RELEASED.to_owned()),
        Change::Offload(offload) => Some(in_host_memory(*offload)),
        Change::Shard(shard) => Some(sharded(*shard)),
        Change::Precision(precision) => Some(precision.name().to_owned()),
        Change::State(format) => Some(format!("{} state", format.name())),
        other => Some(other.setting().1),
    };
    let words: Vec<_> = changes.iter().filter_map(word).collect();
    if words.is_empty() { "no lever".to_owned() } else { words.join(" · ") }
}

const RELEASED: &str = "released gradients";

fn sharded(shard: Shard) -> String {
    format!("{} sharded", shard.name())
}

fn in_host_memory(offload: Offload) -> String {
    format!("{} in host memory", offload.name().replace(',', " and "))
}

/// The names of the stages that a split recomputes.
fn names_of_recomputed<'a>(session: &'a Session, split: &StepSplit) -> Vec<&'a str> {
    let stages = session.stages.iter().zip(&split.recompute);
    stages.filter(|(_, chosen)| **chosen).map(|(name, _)| name.as_str()).collect()
}

/// The memory policy in a few words, with the split that `auto` chose.
pub(super) fn describe_split(session: &Session, split: Option<&StepSplit>) -> String {
    let memory = &session.config.memory;
    let recompute = match &memory.recompute {
        Recompute::None => None,
        Recompute::Named(names) => Some(format!("recompute {}", names.join(", "))),
        Recompute::Auto => Some(match split.map(|split| names_of_recomputed(session, split)).as_deref() {
            None => "recompute auto".to_owned(),
            Some([]) => "recompute auto: none".to_owned(),
            Some(names) => format!("recompute auto: {}", names.join(", ")),
        }),
        named => named.name().map(|name| format!("recompute {name}")),
    };
    // The caller shows the size of the micro-batch beside that of the batch.
    let micro_batch = (memory.micro_batch == Some(MicroBatch::Auto)).then(|| "micro-batch auto".to_owned());
    let lean = (!memory.lean).then(|| "layers of Burn's operations".to_owned());
    let precision = memory.precision.name().to_owned();
    let released = (memory.gradients == Gradients::Release).then(|| RELEASED.to_owned());
    let chunk = memory.loss_chunk.map(|tokens| format!("loss by chunks of {tokens} tokens"));
    let offload = (memory.offload != Offload::default()).then(|| in_host_memory(memory.offload));
    let shard = session.config.device.sharing.ddp().map(|ddp| ddp.shard);
    let shard = shard.filter(|shard| *shard > Shard::None).map(sharded);
    let fit = session.awaits_fit().then(|| "fit auto".to_owned());
    let words = [Some(precision), recompute, micro_batch, lean, released, chunk, offload, shard, fit];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
