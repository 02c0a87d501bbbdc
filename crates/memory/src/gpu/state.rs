/// Settings and errors of a card beyond those of [`Card`](super::Card). Figures that the card or its driver does not
/// provide are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardState {
    /// Its compute mode.
    pub compute_mode: Option<ComputeMode>,
    /// Uncorrectable memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Whether broken memory cells wait for a restart to be retired.
    pub retirement_pending: Option<bool>,
}

/// The processes that may compute on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// One process at a time.
    ExclusiveProcess,
    /// None.
    Prohibited,
}
