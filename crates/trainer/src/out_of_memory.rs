use std::{fmt, path::PathBuf};

use oomph_core::{Bytes, Phase};

/// More was needed than the device may use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OutOfMemory {
    /// What was being done.
    pub phase: Phase,
    /// The stage or layer, where it was in one.
    pub scope: String,
    /// The optimizer step, from 1; `None` outside of training.
    pub step: Option<usize>,
    /// The allocation that went above the limit.
    pub requested_bytes: Bytes,
    /// In use with it.
    pub in_use_bytes: Bytes,
    /// What may be used.
    pub limit_bytes: Bytes,
    /// The page that shows what was in use up to then, where allocations were recorded.
    pub timeline: Option<PathBuf>,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, scope, step, requested_bytes, in_use_bytes, limit_bytes, timeline } = self;
        write!(f, "out of memory in {phase}")?;
        if !scope.is_empty() {
            write!(f, " at `{scope}`")?;
        }
        if let Some(step) = step {
            write!(f, " of step {step}")?;
        }
        write!(f, ": {requested_bytes} more made {in_use_bytes} in use, above the limit of {limit_bytes}")?;
        match timeline {
            Some(path) => write!(f, "; what was in use is shown in `{}`", path.display()),
            None => Ok(()),
        }
    }
}

/// Whether the limit was crossed since the last time. The crossing is taken: it ends one step, not those after it.
///
/// # Errors
/// [`OutOfMemory`], where it was.
pub(crate) fn check() -> Result<(), Box<OutOfMemory>> {
    let Some(crossing) = oomph_memory::take_crossing() else { return Ok(()) };
    Err(Box::new(OutOfMemory {
        phase: crossing.place.phase(),
        scope: crossing.place.scope(),
        step: None,
        requested_bytes: crossing.requested_bytes,
        in_use_bytes: crossing.in_use_bytes,
        limit_bytes: crossing.limit_bytes,
        timeline: None,
    }))
}
