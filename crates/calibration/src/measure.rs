use std::time::Instant;

use burn::tensor::{Device, Tensor};

use crate::{Calibration, MachineKey, probe::Clock, probes};

/// Measures the kernels of this machine on the running compute threads. `observe` gets how many kernels of all are
/// measured. Nothing is written.
pub fn measure(machine: MachineKey, mut observe: impl FnMut(usize, usize)) -> Calibration {
    let probes = probes::all();
    let mut clock = Clock::new();
    let mut samples = Vec::with_capacity(probes.len());
    for (index, probe) in probes.iter().enumerate() {
        observe(index, probes.len());
        samples.extend(clock.time(probe));
    }
    observe(probes.len(), probes.len());
    Calibration { machine, overhead_seconds: overhead(&mut clock), samples }
}

/// Seconds that an operation takes beside its kernel: a chain of operations on a single element, forward and backward.
fn overhead(clock: &mut Clock) -> f64 {
    const CHAIN: usize = 32;
    const TIMES: usize = 21;
    let device = Device::flex().autodiff();
    let times = (0..TIMES).map(|_| {
        let mut tensor = Tensor::<1>::ones([1], &device).require_grad();
        clock.forget_caches();
        let begun = Instant::now();
        for _ in 0..CHAIN {
            tensor = tensor.mul_scalar(0.5);
        }
        drop(tensor.backward());
        begun.elapsed().as_secs_f64() / (2 * CHAIN) as f64
    });
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times[TIMES / 2]
}
