use oomph_config::{DeviceName, Sharing};
use oomph_core::Bytes;
use oomph_engine::session::Session;
use oomph_memory::{is_installed, read_device};

use crate::{Stop, TrainError, ranks::train_on_ranks};

/// Does `lead` on one device or on the devices of a split model, or as rank 0 of replicas that follow it.
///
/// # Errors
/// Those of `lead`, and that of the rank that failed first.
pub(super) fn on_all_devices<T>(
    session: &Session,
    lead: impl FnOnce(&Session) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    match session.config.device.sharing {
        Sharing::Ddp(_) if session.config.device.devices.len() > 1 => {
            train_on_ranks(session, &Stop::new(), None, lead)
        }
        _ => lead(session),
    }
}

/// The peak in use of the fullest CPU device. `None` without the meter and without such a device.
pub(super) fn peak_of_fullest(session: &Session) -> Option<Bytes> {
    let devices = &session.config.device.devices;
    let cpus = (0..devices.len()).filter(|device| devices[*device] == DeviceName::Cpu);
    cpus.map(|device| read_device(device).peak_in_use_bytes).max().filter(|_| is_installed())
}
