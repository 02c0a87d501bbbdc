use oomph_config::DeviceName;
use oomph_engine::{session::Session, step::Stepper};
use oomph_runs::DeviceMetrics;

/// The metrics of each device of this process; nothing for one device.
pub(super) fn device_metrics(session: &Session, stepper: &Stepper) -> Vec<DeviceMetrics> {
    let names = session.devices_here();
    if names.len() < 2 {
        return Vec::new();
    }
    let parts = stepper.device_use();
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
            // The figures of the other ranks are unknown here.
            all_reduce_seconds: stepper.all_reduce_seconds().filter(|_| index == 0),
        }
    });
    metrics.collect()
}
