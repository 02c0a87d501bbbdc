use oomph_core::{Bytes, Phase};

/// More was needed than the device may use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory in {phase}{}: {requested_bytes} more made {in_use_bytes} in use, above the limit of {limit_bytes}",
    within(.scope)
)]
pub struct OutOfMemory {
    /// What was being done.
    pub phase: Phase,
    /// The stage or layer, where it was in one.
    pub scope: String,
    /// The allocation that went above the limit.
    pub requested_bytes: Bytes,
    /// In use with it.
    pub in_use_bytes: Bytes,
    /// What may be used.
    pub limit_bytes: Bytes,
}

fn within(scope: &str) -> String {
    if scope.is_empty() { String::new() } else { format!(" at `{scope}`") }
}

/// Whether the limit was crossed since the last time. The crossing is taken: it ends one step, not those after it.
///
/// # Errors
/// [`OutOfMemory`], where it was.
pub(crate) fn check() -> Result<(), OutOfMemory> {
    let Some(crossing) = oomph_memory::take_crossing() else { return Ok(()) };
    Err(OutOfMemory {
        phase: crossing.place.phase(),
        scope: crossing.place.scope(),
        requested_bytes: crossing.requested_bytes,
        in_use_bytes: crossing.in_use_bytes,
        limit_bytes: crossing.limit_bytes,
    })
}
