//! What is known of each of several devices.

use oomph_config::DeviceName;

use super::Training;
use crate::DeviceMetrics;

impl Training<'_> {
    /// Each device of this process, where there are several.
    pub(super) fn devices(&self) -> Vec<DeviceMetrics> {
        let session = self.session;
        let names = session.devices_here();
        if names.len() < 2 {
            return Vec::new();
        }
        let parts = self.stepper.parts();
        let metrics = names.iter().enumerate().map(|(index, name)| {
            let is_measured = oomph_memory::is_installed() && *name == DeviceName::Cpu;
            let part = parts.get(index);
            DeviceMetrics {
                device: name.to_string(),
                stages: part.and_then(|part| part.stages.clone()).map(|stages| {
                    let name = |stage: usize| session.stages[stage].clone();
                    [name(stages.start), name(stages.end - 1)]
                }),
                peak_in_use_bytes: is_measured.then(|| oomph_memory::read_device(index).peak_in_use_bytes),
                idle_share: part.map(|part| part.idle_share),
                // Of the other ranks nobody here knows.
                all_reduce_seconds: self.stepper.all_reduce_seconds().filter(|_| index == 0),
            }
        });
        metrics.collect()
    }
}
