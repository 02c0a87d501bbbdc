use serde::Serialize;

/// Whether a training fits into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The memory was enough, or will be by the plan.
    Fits,
    /// The memory was not enough, or will not be by the plan.
    DoesNotFit,
    /// The training is impossible, or failed for another reason.
    Failed,
}

impl Verdict {
    /// The verdict in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::DoesNotFit => "does not fit",
            Self::Failed => "failed",
        }
    }
}
