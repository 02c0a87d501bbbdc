/// How a card is set and whether it is sound, beside what a [`Card`](super::Card) tells. What the card or its driver
/// does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardState {
    /// Who may compute on it.
    pub compute_mode: Option<ComputeMode>,
    /// Errors of its memory that could not be corrected, since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Whether cells of its memory wait for a restart to be taken out of use.
    pub retirement_pending: Option<bool>,
}

/// Who may compute on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// One process at a time.
    ExclusiveProcess,
    /// Nobody.
    Prohibited,
}
