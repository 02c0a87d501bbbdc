//! The levers: settings that lower memory. To add a lever, add an entry to [`LEVERS`].

use oomph_config::{
    Change, MicroBatch, OptimizerKind, OptimizerName, Precision, Recompute,
    sections::{memory::Gradients, offload::Offload, optimizer::StateFormat, sharing::Shard},
};
use oomph_core::{Split, TargetSpec};

use oomph_engine::{
    micro_batches::micro_batches,
    session::{Session, largest_train_batch},
};

use crate::planning::{eval_batch, micro_batch};

/// A setting that lowers memory, with its candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lever {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// Whether batch, gradients and optimizer stay the same.
    pub(super) keeps_mathematics: bool,
    /// Whether it changes the memory of an evaluation.
    pub(super) is_for_evaluation: bool,
    /// Whether it changes the batch.
    pub(super) changes_batch: bool,
    /// Whether it helps on GPUs alone.
    pub(super) is_for_gpus: bool,
    /// Its other effects, in a few words. Reports show them.
    pub(super) about: fn(&Session) -> &'static str,
    /// The candidates for a session, from the weakest to the strongest.
    pub(super) candidates: fn(&Session) -> Vec<Candidate>,
}

/// All levers, in the order in which they are tried and proposed.
pub(super) static LEVERS: [Lever; 12] = [
    Lever {
        name: "micro-batch",
        keeps_mathematics: true,
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |session| match session.has_running_statistics {
            true => "same batch; batch normalisation is over the micro-batch",
            false => "same batch, same gradients",
        },
        candidates: |session| {
            let (batch, micro_batch) = (largest_train_batch(session), micro_batch(session));
            let sizes = micro_batches(batch).filter(|size| *size < micro_batch);
            sizes.map(|size| of_size(Change::MicroBatch(MicroBatch::Samples(size)), size)).collect()
        },
    },
    Lever {
        name: "evaluation batch",
        keeps_mathematics: true,
        is_for_evaluation: true,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "same evaluation results",
        candidates: |session| {
            // No evaluation batch has more samples than are held out.
            let largest = eval_batch(session).min(session.source.len(Split::Test).max(1));
            (1..largest).rev().map(|size| of_size(Change::EvalBatch(size), size)).collect()
        },
    },
    Lever {
        name: "lean layers",
        keeps_mathematics: true,
        is_for_evaluation: true,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "layers keep fewer activations for backward",
        candidates: |session| switch(session.config.memory.lean, Change::Lean(true)),
    },
    Lever {
        name: "recompute",
        keeps_mathematics: true,
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "recomputes activations in backward; bit-identical training",
        candidates: |session| {
            // Not `auto`: it relies on the limit, which may have been wrong.
            let recomputes = session.config.memory.recompute == Recompute::Stages;
            switch(recomputes, Change::Recompute(Recompute::Stages))
        },
    },
    Lever {
        name: "gradients",
        keeps_mathematics: true,
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "each stage takes its step in backward; bit-identical training",
        candidates: |session| {
            let (config, release) = (&session.config, Change::Gradients(Gradients::Release));
            // Some settings need all gradients at once.
            let is_possible = || config.changed(std::slice::from_ref(&release)).is_ok();
            switch(config.memory.gradients == Gradients::Release || !is_possible(), release.clone())
        },
    },
    Lever {
        name: "loss chunk",
        keeps_mathematics: true,
        is_for_evaluation: true,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "logits of fewer tokens at a time; same gradients",
        candidates: |session| {
            let TargetSpec::Tokens { steps, .. } = session.spec().target else { return Vec::new() };
            let now = session.config.memory.loss_chunk.unwrap_or(micro_batch(session) * steps);
            let sizes = LOSS_CHUNKS.into_iter().filter(|size| *size < now && session.takes_loss_chunk());
            sizes.map(|size| of_size(Change::LossChunk(size), size)).collect()
        },
    },
    Lever {
        name: "offload",
        keeps_mathematics: true,
        is_for_evaluation: false,
        changes_batch: false,
        // On the CPU the host's memory is the same.
        is_for_gpus: true,
        about: |_| "keeps bytes in host memory; bit-identical training",
        candidates: |session| {
            let now = session.config.memory.offload;
            let more = |offload: &Offload| {
                *offload != now
                    && (offload.optimizer || !now.optimizer)
                    && (offload.activations || !now.activations)
            };
            // What the optimizer or `recompute` has no use for is refused where it is planned.
            let all = Offload::ALL.into_iter().enumerate().filter(|(_, offload)| more(offload));
            all.map(|(at, offload)| of_size(Change::Offload(offload), Offload::ALL.len() - at)).collect()
        },
    },
    Lever {
        name: "shard",
        keeps_mathematics: true,
        // An evaluation takes place in a training.
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "each rank holds a part; same gradients",
        candidates: |session| {
            let Some(ddp) = session.config.device.sharing.ddp() else { return Vec::new() };
            let more = Shard::ALL.into_iter().filter(|shard| *shard > ddp.shard && session.world_size() > 1);
            let changes =
                more.enumerate().map(|(at, shard)| of_size(Change::Shard(shard), Shard::ALL.len() - at));
            // Not every optimizer steps a part of a parameter.
            changes.filter(|candidate| session.config.changed(&candidate.changes).is_ok()).collect()
        },
    },
    Lever {
        name: "precision",
        keeps_mathematics: false,
        is_for_evaluation: true,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "rounds activations to 16 bits; parameters keep 32",
        candidates: |session| {
            let is_short = session.config.memory.precision != Precision::Fp32;
            switch(is_short, Change::Precision(Precision::Bf16))
        },
    },
    Lever {
        name: "optimizer state",
        keeps_mathematics: false,
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "rounds the optimizer's state; computes in 32 bits",
        candidates: |session| {
            let formats = StateFormat::ALL.iter().map(|(_, format)| *format);
            let shorter = formats.skip_while(|format| *format != session.config.optimizer.state).skip(1);
            let changes = shorter.map(|format| (Change::State(format), bits(format)));
            // Not every optimizer has state that can be packed.
            changes
                .filter(|(change, _)| session.config.changed(std::slice::from_ref(change)).is_ok())
                .map(|(change, bits)| of_size(change, bits))
                .collect()
        },
    },
    Lever {
        name: "optimizer",
        keeps_mathematics: false,
        is_for_evaluation: false,
        changes_batch: false,
        is_for_gpus: false,
        about: |_| "different optimizer; needs a new learning rate",
        candidates: |session| {
            let changes = leaner_optimizers(&session.config.optimizer.kind);
            (0..changes.len())
                .rev()
                .zip(changes)
                .map(|(rest, changes)| Candidate { changes, size: rest as f64 + 1.0 })
                .collect()
        },
    },
    Lever {
        name: "batch",
        keeps_mathematics: false,
        is_for_evaluation: false,
        changes_batch: true,
        is_for_gpus: false,
        about: |_| "smaller batch; trains differently",
        candidates: |session| {
            (1..largest_train_batch(session)).rev().map(|size| of_size(Change::Batch(size), size)).collect()
        },
    },
];

/// The sizes that are tried of chunks of a loss. Fewer tokens than the last make products slow.
const LOSS_CHUNKS: [usize; 6] = [8_192, 4_096, 2_048, 1_024, 512, 256];

/// The lever that makes a change which `memory.fit` chose.
pub(super) fn lever_of(change: &Change) -> Option<&'static Lever> {
    let name = match change {
        Change::MicroBatch(_) => "micro-batch",
        Change::Recompute(_) => "recompute",
        Change::Gradients(_) => "gradients",
        Change::Offload(_) => "offload",
        Change::Shard(_) => "shard",
        _ => return None,
    };
    LEVERS.iter().find(|lever| lever.name == name)
}

/// A value of a lever.
pub(super) struct Candidate {
    /// Its changes.
    pub(super) changes: Vec<Change>,
    /// The size that it sets. The peak grows nearly in proportion to it.
    pub(super) size: f64,
}

fn of_size(change: Change, size: usize) -> Candidate {
    Candidate { changes: vec![change], size: size as f64 }
}

fn bits(format: StateFormat) -> usize {
    match format {
        StateFormat::Fp32 => 32,
        StateFormat::Bf16 => 16,
        StateFormat::Int8 => 8,
    }
}

/// The one candidate of a switch, if it is not set yet.
fn switch(is_set: bool, change: Change) -> Vec<Candidate> {
    if is_set { Vec::new() } else { vec![of_size(change, 1)] }
}

/// The optimizers with less state than `kind`. For an adaptive optimizer: other adaptive ones first, which take steps
/// of a similar size, and plain SGD last.
fn leaner_optimizers(kind: &OptimizerKind) -> Vec<Vec<Change>> {
    /// Bytes of state per parameter. Adafactor keeps some hundredths of a byte.
    const LEANER: [(u64, OptimizerName); 4] = [
        (8, OptimizerName::AdamW),
        (4, OptimizerName::Lion),
        (0, OptimizerName::Adafactor),
        (0, OptimizerName::Sgd),
    ];
    let is_adaptive = !matches!(kind, OptimizerKind::Sgd { .. });
    let own = bytes_kept(kind);
    let rules =
        LEANER.iter().filter(|(bytes, name)| *bytes < own && (is_adaptive || *name == OptimizerName::Sgd));
    rules.map(|(_, name)| leaner_optimizer(*name, kind)).collect()
}

fn leaner_optimizer(name: OptimizerName, than: &OptimizerKind) -> Vec<Change> {
    let mut changes = vec![Change::Optimizer(name)];
    if name == OptimizerName::Sgd {
        changes.push(Change::Momentum(0.0));
        // Nesterov needs momentum.
        let looks_ahead = matches!(than, OptimizerKind::Sgd { nesterov: true, .. });
        changes.extend(looks_ahead.then_some(Change::Nesterov(false)));
    }
    changes
}

/// Bytes of state per parameter, rounded down.
fn bytes_kept(kind: &OptimizerKind) -> u64 {
    match kind {
        OptimizerKind::Sgd { momentum, .. } if *momentum == 0.0 => 0,
        OptimizerKind::Adafactor { .. } => 0,
        OptimizerKind::Sgd { .. } | OptimizerKind::AdaGrad { .. } | OptimizerKind::Lion { .. } => 4,
        OptimizerKind::Adam(moments) | OptimizerKind::AdamW(moments) => {
            8 + if moments.amsgrad { 4 } else { 0 }
        }
        OptimizerKind::RmsProp { centered, momentum, .. } => {
            4 + if *centered { 4 } else { 0 } + if *momentum > 0.0 { 4 } else { 0 }
        }
        OptimizerKind::Adan { .. } => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(settings: &str) -> Vec<String> {
        let config = oomph_config::Config::from_toml("levers", &format!("optimizer = {{ {settings} }}"));
        let candidates = leaner_optimizers(&config.expect("the settings are right").optimizer.kind);
        candidates.into_iter().map(|candidate| candidate[0].setting().1).collect()
    }

    #[test]
    fn leaner_optimizers_are_of_the_same_kind() {
        assert_eq!(names("name = 'adan'"), ["adamw", "lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'adam', amsgrad = true"), ["adamw", "lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'adamw'"), ["lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'rmsprop', momentum = 0.9"), ["lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'lion'"), ["adafactor", "sgd"]);
        assert_eq!(names("name = 'sgd', momentum = 0.9, nesterov = true"), ["sgd"]);
        assert!(names("name = 'sgd'").is_empty() && names("name = 'adafactor'").is_empty());
    }
}
