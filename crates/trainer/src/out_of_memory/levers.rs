//! What can be changed to need less memory. A new lever is a new entry of [`LEVERS`], and nothing else.

use oomph_config::{OptimizerKind, Precision, Recompute};

use super::advice::Settings;
use crate::{Session, micro_batches::micro_batches};

/// A way to need less memory, in rungs from the weakest to the strongest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lever {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// Whether the training stays the same: batch, gradient and rule.
    pub(super) keeps_mathematics: bool,
    /// Whether it changes what an evaluation alone needs.
    pub(super) is_for_evaluation: bool,
    /// What it changes otherwise, in a few words.
    pub(super) about: &'static str,
    /// The rungs that a configuration has.
    pub(super) rungs: fn(&Session) -> Rungs,
}

/// All levers, in the order in which they are tried and proposed.
pub(super) const LEVERS: [Lever; 7] = [
    Lever {
        name: "micro-batch",
        keeps_mathematics: true,
        is_for_evaluation: false,
        about: "the batch stays; batch normalisation, if any, sees the micro-batch",
        rungs: |session| {
            let (batch, micro_batch) = (session.largest_train_batch(), session.micro_batch());
            let sizes = micro_batches(batch).filter(|size| *size < micro_batch).collect();
            Rungs::of_sizes("memory.micro_batch", sizes)
        },
    },
    Lever {
        name: "evaluation batch",
        keeps_mathematics: true,
        is_for_evaluation: true,
        about: "the evaluation gives the same",
        rungs: |session| Rungs::below("train.eval_batch", session.eval_batch()),
    },
    Lever {
        name: "lean layers",
        keeps_mathematics: true,
        is_for_evaluation: true,
        about: "layers keep less for backward",
        rungs: |session| {
            let settings = (!session.config.memory.lean).then(|| one("memory.lean", true));
            Rungs::of(settings.into_iter().collect())
        },
    },
    Lever {
        name: "recompute",
        keeps_mathematics: true,
        is_for_evaluation: false,
        about: "activations are computed again in backward; no bit of the training changes",
        rungs: |session| {
            // `auto` would go by the limit again, which may be what was wrong.
            let settings = (session.config.memory.recompute != Recompute::Stages)
                .then(|| one("memory.recompute", "stages"));
            Rungs::of(settings.into_iter().collect())
        },
    },
    Lever {
        name: "precision",
        keeps_mathematics: false,
        is_for_evaluation: true,
        about: "activations of 16 bits round; parameters keep 32",
        rungs: |session| {
            let settings =
                (session.config.memory.precision == Precision::Fp32).then(|| one("memory.precision", "bf16"));
            Rungs::of(settings.into_iter().collect())
        },
    },
    Lever {
        name: "optimizer",
        keeps_mathematics: false,
        is_for_evaluation: false,
        about: "another rule: it wants a learning rate of its own",
        rungs: |session| Rungs::of(leaner_optimizers(&session.config.optimizer.kind)),
    },
    Lever {
        name: "batch",
        keeps_mathematics: false,
        is_for_evaluation: false,
        about: "a smaller batch trains differently",
        rungs: |session| Rungs::below("train.batch", session.largest_train_batch()),
    },
];

/// What a lever can set, rung by rung.
pub(super) struct Rungs {
    /// How many there are.
    pub(super) count: usize,
    /// The settings of one.
    pub(super) at: Box<dyn Fn(usize) -> Settings>,
    /// What the peak grows with, nearly in proportion: the size that is set.
    pub(super) size: Box<dyn Fn(usize) -> f64>,
}

impl Rungs {
    fn of(settings: Vec<Settings>) -> Self {
        let count = settings.len();
        Self {
            count,
            at: Box::new(move |rung| settings[rung].clone()),
            size: Box::new(move |rung| (count - rung) as f64),
        }
    }

    fn of_sizes(key: &'static str, sizes: Vec<usize>) -> Self {
        let settings = sizes.iter().map(|size| one(key, size)).collect();
        Self { size: Box::new(move |rung| sizes[rung] as f64), ..Self::of(settings) }
    }

    /// Every size below one.
    fn below(key: &'static str, size: usize) -> Self {
        let of = move |rung| size - 1 - rung;
        Self {
            count: size.saturating_sub(1),
            at: Box::new(move |rung| one(key, of(rung))),
            size: Box::new(move |rung| of(rung) as f64),
        }
    }
}

fn one(key: &str, value: impl ToString) -> Settings {
    vec![(key.to_owned(), value.to_string())]
}

/// The rules that keep less for each parameter. Those that go by the size of gradients are followed by others that make
/// steps of a like size, and by plain descent where those keep too much.
fn leaner_optimizers(kind: &OptimizerKind) -> Vec<Settings> {
    /// Bytes a parameter that each keeps. Adafactor's rows and columns are some hundredths of a byte.
    const ADAPTIVE: [(u64, &str); 4] = [(8, "adamw"), (4, "lion"), (0, "adafactor"), (0, "sgd")];
    const DESCENT: [(u64, &str); 1] = [(0, "sgd")];
    let rules = match kind {
        OptimizerKind::Sgd { .. } => &DESCENT[..],
        _ => &ADAPTIVE[..],
    };
    let own = bytes_kept(kind);
    rules.iter().filter(|(bytes, _)| *bytes < own).map(|(_, name)| leaner_optimizer(name, kind)).collect()
}

fn leaner_optimizer(name: &str, than: &OptimizerKind) -> Settings {
    let mut settings = one("optimizer.name", name);
    if name == "sgd" {
        settings.extend(one("optimizer.momentum", "0.0"));
        // Without momentum there is nothing to look ahead along.
        let looks_ahead = matches!(than, OptimizerKind::Sgd { nesterov: true, .. });
        settings.extend(looks_ahead.then(|| one("optimizer.nesterov", "false")).into_iter().flatten());
    }
    settings
}

/// Bytes that a rule keeps for each parameter, rounded down.
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
        let rungs = leaner_optimizers(&config.expect("the settings are right").optimizer.kind);
        rungs.into_iter().map(|rung| rung[0].1.clone()).collect()
    }

    #[test]
    fn a_leaner_rule_is_of_the_kind_that_there_is() {
        assert_eq!(names("name = 'adan'"), ["adamw", "lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'adam', amsgrad = true"), ["adamw", "lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'adamw'"), ["lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'rmsprop', momentum = 0.9"), ["lion", "adafactor", "sgd"]);
        assert_eq!(names("name = 'lion'"), ["adafactor", "sgd"]);
        assert_eq!(names("name = 'sgd', momentum = 0.9, nesterov = true"), ["sgd"]);
        assert!(names("name = 'sgd'").is_empty() && names("name = 'adafactor'").is_empty());
    }
}
