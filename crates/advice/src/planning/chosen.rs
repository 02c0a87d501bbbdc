use oomph_engine::session::StepSplit;
use oomph_plan::Backend;

/// What a plan is of.
pub(super) struct Chosen {
    /// Samples of a step on all devices together.
    pub(super) batch: usize,
    pub(super) backend: Backend,
    pub(super) split: StepSplit,
}
