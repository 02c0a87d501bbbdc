//! Memory that ran out, and the check for it at the boundaries of a step.

pub use crate::shortage::{Exhausted, Shortage};

use crate::{EngineError, device_failure};

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
