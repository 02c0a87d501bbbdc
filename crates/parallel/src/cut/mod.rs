//! Where a chain of stages is cut, so that each device has a consecutive run of them.

mod best;
mod by_names;

pub use best::best_cut;
pub use by_names::cut_by_names;

/// Why a model cannot be cut so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// Each device has at least one stage.
    #[error("{stages} stages are too few for {devices} devices: each has at least one")]
    TooFewStages {
        /// The stages there are.
        stages: usize,
        /// The devices there are.
        devices: usize,
    },
    /// Each device after the first begins at a cut.
    #[error("the cuts are for {} devices, and there are {devices}", cuts + 1)]
    WrongCount {
        /// The cuts given.
        cuts: usize,
        /// The devices there are.
        devices: usize,
    },
    /// No stage or group of stages has this name.
    #[error("no stage is called `{name}`; the stages are {}", listed(.stages))]
    UnknownStage {
        /// The name given.
        name: String,
        /// The stages there are, in order.
        stages: Vec<String>,
    },
    /// The first device has the first stage, so nothing is cut there.
    #[error("`{name}` is the beginning of the model, which the first device has anyway")]
    AtTheBeginning {
        /// The name given.
        name: String,
    },
    /// Two cuts at one place, or in the wrong order.
    #[error("`{name}` does not come after `{before}` in the model; cuts are in its order")]
    NotAscending {
        /// The name given later.
        name: String,
        /// The name given before it.
        before: String,
    },
}

fn listed(stages: &[String]) -> String {
    let quoted: Vec<_> = stages.iter().map(|stage| format!("`{stage}`")).collect();
    quoted.join(", ")
}
