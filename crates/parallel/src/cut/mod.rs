//! Cuts of a chain of stages into one consecutive run of stages per device.

mod best;
mod by_names;

pub use best::best_cut;
pub use by_names::cut_by_names;

/// Why a model cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// There are fewer stages than devices.
    #[error("{stages} stages are too few for {devices} devices; each device needs at least one")]
    TooFewStages {
        /// The number of stages.
        stages: usize,
        /// The number of devices.
        devices: usize,
    },
    /// The number of split points does not match the devices.
    #[error("the split points are for {} devices, but there are {devices}", cuts + 1)]
    WrongCount {
        /// The split points given.
        cuts: usize,
        /// The number of devices.
        devices: usize,
    },
    /// No stage or group of stages has this name.
    #[error("no stage is called `{name}`; the stages are {}", listed(.stages))]
    UnknownStage {
        /// The name given.
        name: String,
        /// The known stages, in order.
        stages: Vec<String>,
    },
    /// The first stage, which the first device has in any case.
    #[error("`{name}` is the first stage of the model; the first device always begins there")]
    AtTheBeginning {
        /// The name given.
        name: String,
    },
    /// Two split points at one stage, or in the wrong order.
    #[error(
        "`{name}` does not come after `{before}` in the model; split points follow the order of the model"
    )]
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
