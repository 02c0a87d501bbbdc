use std::path::PathBuf;

use oomph_runs::Adapted;

use crate::Resume;

/// The options of [`train`](crate::train).
#[derive(Clone, Debug, Default)]
pub struct TrainOptions {
    /// Where the training starts.
    pub resume: Resume,
    /// Whether to train even where the plan does not fit.
    pub skip_plan_check: bool,
    /// How `memory.on_oom = "adapt"` changed the session to fit. The run's log gets it as an event.
    pub adapted: Option<Adapted>,
    /// Directory of the out-of-memory report of a training that is refused before it has a run directory.
    pub report: Option<PathBuf>,
}
