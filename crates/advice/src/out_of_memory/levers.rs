//! The levers: settings that lower memory. To add a lever, add an entry to [`LEVERS`].

use oomph_config::{Change, MicroBatch, OptimizerKind, OptimizerName, Precision, Recompute};

use oomph_engine::{
    micro_batches::micro_batches,
    session::{Session, largest_train_batch},
};

use crate::planning::{eval_batch, micro_batch};

/// A setting that lowers memory, with candidates from the weakest to the strongest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lever {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// Whether batch, gradients and optimizer stay the same.
    pub(super) keeps_mathematics: bool,
    /// Whether it changes the memory of an evaluation.
    pub(super) is_for_evaluation: bool,
    /// Its other effects, in a few words. Reports show them.
    pub(super) about: &'static str,
    /// The candidates for a session.
    pub(super) candidates: fn(&Session) -> Candidates,
}

/// All levers, in the order in which they are tried and proposed.
pub(super) const LEVERS: [Lever; 7] = [
    Lever {
        name: "micro-batch",
        keeps_mathematics: true,
        is_for_evaluation: false,
        about: "same batch; batch normalisation, if any, is over the micro-batch",
        candidates: |session| {
            let (batch, micro_batch) = (largest_train_batch(session), micro_batch(session));
            let sizes = micro_batches(batch).filter(|size| *size < micro_batch).collect();
            Candidates::of_sizes(|size| Change::MicroBatch(MicroBatch::Samples(size)), sizes)
        },
    },
    Lever {
        name: "evaluation batch",
        keeps_mathematics: true,
        is_for_evaluation: true,
        about: "same evaluation results",
        candidates: |session| Candidates::below(Change::EvalBatch, eval_batch(session)),
    },
    Lever {
        name: "lean layers",
        keeps_mathematics: true,
        is_for_evaluation: true,
        about: "layers keep fewer activations for backward",
        candidates: |session| {
            let changes = (!session.config.memory.lean).then(|| vec![Change::Lean(true)]);
            Candidates::of(changes.into_iter().collect())
        },
    },
    Lever {
        name: "recompute",
        keeps_mathematics: true,
        is_for_evaluation: false,
        about: "recomputes activations in backward; bit-identical training",
        candidates: |session| {
            // Not `auto`: it relies on the limit, which may have been wrong.
            let changes = (session.config.memory.recompute != Recompute::Stages)
                .then(|| vec![Change::Recompute(Recompute::Stages)]);
            Candidates::of(changes.into_iter().collect())
        },
    },
    Lever {
        name: "precision",
        keeps_mathematics: false,
        is_for_evaluation: true,
        about: "rounds activations to 16 bits; parameters keep 32",
        candidates: |session| {
            let changes = (session.config.memory.precision == Precision::Fp32)
                .then(|| vec![Change::Precision(Precision::Bf16)]);
            Candidates::of(changes.into_iter().collect())
        },
    },
    Lever {
        name: "optimizer",
        keeps_mathematics: false,
        is_for_evaluation: false,
        about: "different optimizer; needs a new learning rate",
        candidates: |session| Candidates::of(leaner_optimizers(&session.config.optimizer.kind)),
    },
    Lever {
        name: "batch",
        keeps_mathematics: false,
        is_for_evaluation: false,
        about: "smaller batch; trains differently",
        candidates: |session| Candidates::below(Change::Batch, largest_train_batch(session)),
    },
];

/// The candidates of a lever, from the weakest to the strongest.
pub(super) struct Candidates {
    /// The number of candidates.
    pub(super) count: usize,
    /// The changes of a candidate.
    pub(super) at: Box<dyn Fn(usize) -> Vec<Change>>,
    /// The size that a candidate sets. The peak grows nearly in proportion to it.
    pub(super) size: Box<dyn Fn(usize) -> f64>,
}

impl Candidates {
    fn of(changes: Vec<Vec<Change>>) -> Self {
        let count = changes.len();
        Self {
            count,
            at: Box::new(move |candidate| changes[candidate].clone()),
            size: Box::new(move |candidate| (count - candidate) as f64),
        }
    }

    fn of_sizes(change: fn(usize) -> Change, sizes: Vec<usize>) -> Self {
        let changes = sizes.iter().map(|size| vec![change(*size)]).collect();
        Self { size: Box::new(move |candidate| sizes[candidate] as f64), ..Self::of(changes) }
    }

    /// All sizes below `size`.
    fn below(change: fn(usize) -> Change, size: usize) -> Self {
        let of = move |candidate| size - 1 - candidate;
        Self {
            count: size.saturating_sub(1),
            at: Box::new(move |candidate| vec![change(of(candidate))]),
            size: Box::new(move |candidate| of(candidate) as f64),
        }
    }
}

/// The optimizers with less state than `kind`. For an adaptive optimizer: other adaptive ones first, which take steps
/// of a similar size, and plain SGD last.
fn leaner_optimizers(kind: &OptimizerKind) -> Vec<Vec<Change>> {
    /// Bytes of state per parameter. Adafactor keeps some hundredths of a byte.
    const ADAPTIVE: [(u64, OptimizerName); 4] = [
        (8, OptimizerName::AdamW),
        (4, OptimizerName::Lion),
        (0, OptimizerName::Adafactor),
        (0, OptimizerName::Sgd),
    ];
    const DESCENT: [(u64, OptimizerName); 1] = [(0, OptimizerName::Sgd)];
    let rules = match kind {
        OptimizerKind::Sgd { .. } => &DESCENT[..],
        _ => &ADAPTIVE[..],
    };
    let own = bytes_kept(kind);
    rules.iter().filter(|(bytes, _)| *bytes < own).map(|(_, name)| leaner_optimizer(*name, kind)).collect()
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
            if moments.amsgrad {
                12
            } else {
                8
            }
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
