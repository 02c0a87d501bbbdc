//! Some steps of a training with every allocation recorded, and the plan of the same steps.

mod device;
mod error;
mod found;
mod measure;
mod planned;

use oomph_advice::check_training;
use oomph_config::DeviceName;
use oomph_engine::session::Session;
use oomph_memory::{Account, charge};
use oomph_runs::Observer;
use oomph_timeline::{SpanKind, Timeline};

use self::{
    measure::{ProfileRun, measure},
    planned::with_plans,
};
use crate::TrainError;

pub use device::{DeviceProfile, profile_device};
pub use error::ProfileError;
pub use found::{Profile, ProfiledDevice};
pub use measure::ProfileOptions;

/// Trains for some steps, evaluates some batches, and records every allocation. Nothing is saved.
///
/// A step or an evaluation that exceeds the limit ends the profile without an error: the profile shows what led to it.
///
/// # Errors
/// Where training fails, and where allocations cannot be recorded.
pub fn profile(
    session: &Session,
    options: ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<Profile, ProfileError> {
    let devices = &session.config.device.devices;
    if let Some(device) = devices.iter().find(|device| **device != DeviceName::Cpu) {
        return Err(ProfileError::Device { device: *device });
    }
    if !oomph_memory::is_installed() {
        return Err(ProfileError::NoMeter);
    }
    check_training(session).map_err(TrainError::from)?;
    let ProfileRun { timelines, warmup, step_seconds, host_bytes, out_of_memory } =
        charge(Account::Device, || measure(session, &options, observer))?;
    let has_step = |timeline: &Timeline| timeline.spans_of(SpanKind::Step).next().is_some();
    if !timelines.first().is_some_and(has_step) {
        return Err(ProfileError::NoSteps);
    }
    let mut found = with_plans(session, timelines, warmup)?.into_iter();
    let first = found.next().ok_or(ProfileError::NoSteps)?;
    Ok(Profile { first, others: found.collect(), step_seconds, host_bytes, out_of_memory })
}
