use oomph_search::Point;
use serde::{Deserialize, Serialize};

use crate::state::Seen;

/// The attribute of a trial that holds its latest [`Decision`]; the journal keeps all of them.
pub(crate) const DECISION: &str = "oomph:decision";

/// How a decision was made: enough to make it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided about the trial.
    pub kind: DecisionKind,
    /// The part of the journal that it saw.
    pub seen: Seen,
    /// The sampler or scheduler, such as `tpe`.
    pub rule: String,
    /// Which candidate was taken, the best one being 0: those before it did not fit.
    #[serde(default)]
    pub rank: u64,
    /// How often new candidates were drawn, since none before fitted.
    #[serde(default)]
    pub rounds: u64,
}

/// What was decided about a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// It got its point.
    Begin,
    /// It continues from its rung.
    Promote,
    /// It continues from its rung, in a study that may begin no more trials.
    Finish,
    /// It pauses at its rung.
    Pause,
    /// It ends before its end.
    Prune,
}

/// What a decision came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The trial has this point.
    Begin(Point),
    /// The trial of this number continues from its rung.
    Promote(usize),
    /// The trial pauses.
    Pause,
    /// The trial ends before its end.
    Prune,
    /// The trial continues. No record says so; a rule that answers it where a trial was paused differs from the study.
    Continue,
}
