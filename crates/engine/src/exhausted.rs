//! Memory that ran out, and the check for it at the boundaries of a step.

pub use crate::shortage::{Exhausted, Shortage};

use crate::{EngineError, device_failure};

/// What a step asks between its parts: whether it must end.
pub(crate) type Check = fn() -> Result<(), EngineError>;

/// Checks whether the limit was exceeded, or the device failed, since the last check. Each failure is reported once, so
/// it ends one step and not the steps after it.
///
/// # Errors
/// [`EngineError::Exhausted`] if memory ran out, [`EngineError::Device`] for another failure of the device.
pub fn check() -> Result<(), EngineError> {
    device_failure::check()?;
    let Some(crossing) = oomph_memory::take_crossing() else { return Ok(()) };
    let shortage = Shortage::Limit {
        requested_bytes: crossing.requested_bytes,
        in_use_bytes: crossing.in_use_bytes,
        limit_bytes: crossing.limit_bytes,
        event: crossing.event,
    };
    Err(Box::new(Exhausted::new(shortage, crossing.point.phase(), crossing.point.scope())).into())
}

/// As [`check`], right after the optimizer step number `step`, from 1, which has finished.
///
/// # Errors
/// Those of [`check`].
pub fn check_after(step: usize) -> Result<(), EngineError> {
    check().map_err(|mut error| {
        if let EngineError::Exhausted(exhausted) = &mut error {
            exhausted.at_step(step);
        }
        error
    })
}
