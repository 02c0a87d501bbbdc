use oomph_config::{MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_engine::session::{Session, SplitKey, StepSplit, largest_train_batch};
use oomph_plan::Backend;

use crate::planning::choose;

/// The memory policy in a few words, with the choice of `auto` for the backend and the limit:
/// `bf16 · recompute stages`.
pub fn describe_policy(session: &Session, backend: Backend, limit_bytes: Option<Bytes>) -> String {
    let key = SplitKey { batch: session.share_of(largest_train_batch(session)), backend, limit_bytes };
    // Planning reports the error of a split that cannot be chosen.
    describe_split(session, choose(session, key).ok().as_ref())
}

/// The memory policy in a few words, with the split that `auto` chose.
pub(crate) fn describe_split(session: &Session, split: Option<&StepSplit>) -> String {
    let memory = &session.config.memory;
    let recompute = match &memory.recompute {
        Recompute::None => None,
        Recompute::Named(names) => Some(format!("recompute {}", names.join(", "))),
        Recompute::Auto => {
            let chosen = split.map(|split| split.recompute.as_slice()).unwrap_or_default();
            let chosen = session.stages.iter().zip(chosen).filter(|(_, chosen)| **chosen);
            let names: Vec<&str> = chosen.map(|(name, _)| name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Some(format!("recompute auto: {names}"))
        }
        named => named.name().map(|name| format!("recompute {name}")),
    };
    // The caller shows the size of the micro-batch beside that of the batch.
    let micro_batch = (memory.micro_batch == Some(MicroBatch::Auto)).then(|| "micro-batch auto".to_owned());
    let lean = (!memory.lean).then(|| "layers of Burn's operations".to_owned());
    let precision = memory.precision.name().to_owned();
    let words = [Some(precision), recompute, micro_batch, lean];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
