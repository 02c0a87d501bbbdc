use oomph_config::Sharing;
use oomph_core::on_device;
use oomph_data::{Batch, DataError, Loader};
use oomph_memory::{
    Account, LaneKind, charge,
    record::{StepKind, lane, mark_step},
};

use crate::Session;

/// The next batch, which is the host's. Where no worker has it ready the device waits for it, or loads it itself.
pub(crate) fn next_batch(loader: &mut Loader) -> Option<Result<Batch, DataError>> {
    charge(Account::Host, || {
        let _lane = lane(LaneKind::Data, "load", None);
        loader.next()
    })
}

impl Session {
    /// Marks that an optimizer step or an evaluation batch begins, on each device that works on it.
    pub(crate) fn mark_step(&self, number: u64, kind: StepKind) {
        match (&self.config.device.sharing, kind) {
            // A coordinator evaluates by itself.
            (Sharing::Dp { .. }, StepKind::Train) | (Sharing::Model { .. } | Sharing::Pipeline { .. }, _) => {
                let devices = 0..self.config.device.devices.len();
                devices.for_each(|device| on_device(device, || mark_step(number, kind)));
            }
            _ => mark_step(number, kind),
        }
    }
}
