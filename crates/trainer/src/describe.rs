use oomph_config::{MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_plan::Backend;

use crate::{
    Session,
    planning::{Choice, Occasion},
};

impl Session {
    /// The memory policy in a few words, with what `auto` comes to on that backend with that limit:
    /// `bf16 · recompute stages`.
    pub fn describe_policy(&self, backend: Backend, limit_bytes: Option<Bytes>) -> String {
        let occasion = Occasion { batch: self.share_of(self.largest_train_batch()), backend, limit_bytes };
        // What cannot be chosen is an error where it is planned.
        self.describe_choice(self.choice(occasion).ok().as_ref())
    }

    /// The same, where it is known what `auto` comes to.
    pub(crate) fn describe_choice(&self, choice: Option<&Choice>) -> String {
        let memory = &self.config.memory;
        let recompute = match &memory.recompute {
            Recompute::None => None,
            Recompute::Named(names) => Some(format!("recompute {}", names.join(", "))),
            Recompute::Auto => {
                let chosen = choice.map(|choice| choice.recompute.as_slice()).unwrap_or_default();
                let chosen = self.stages.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                let names: Vec<&str> = chosen.map(|(name, _)| name.as_str()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Some(format!("recompute auto: {names}"))
            }
            named => named.name().map(|name| format!("recompute {name}")),
        };
        // Its size is told beside the batch's.
        let micro_batch =
            (memory.micro_batch == Some(MicroBatch::Auto)).then(|| "micro-batch auto".to_owned());
        let lean = (!memory.lean).then(|| "layers of Burn's operations".to_owned());
        let precision = memory.precision.name().to_owned();
        let words = [Some(precision), recompute, micro_batch, lean];
        words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}
