use crate::{Calibration, MachineKey, probe::Clock, probes};

/// Measures the kernels of this machine on the running compute threads. `observe` gets how many kernels of all are
/// measured. What an operation takes beside its kernel is left at 0: whole trainings show it. Nothing is written.
pub fn measure(machine: MachineKey, mut observe: impl FnMut(usize, usize)) -> Calibration {
    let probes = probes::all();
    let mut clock = Clock::new();
    let mut samples = Vec::with_capacity(probes.len());
    for (index, probe) in probes.iter().enumerate() {
        observe(index, probes.len());
        samples.extend(clock.time(probe));
    }
    observe(probes.len(), probes.len());
    Calibration { machine, overhead_seconds: 0.0, samples }
}
