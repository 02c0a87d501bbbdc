use std::time::{Duration, Instant};

use burn::tensor::Device;
use burn_ir::OperationIr;
use oomph_plan::time::{Sample, Work};
use rayon::prelude::*;

/// An operation that is ready to run.
pub(crate) type Ready = Box<dyn FnOnce()>;

/// Makes an operation ready, again and again.
pub(crate) type Prepare = Box<dyn FnMut() -> Ready>;

/// A kernel with some sizes, to be timed.
pub(crate) struct Probe {
    /// How the kind of its operation begins.
    pub(crate) kind: &'static str,
    /// Makes its tensors on a device.
    pub(crate) on: Box<dyn Fn(&Device) -> Prepare>,
}

/// Bytes that all threads write before a kernel is timed: in a training much lies between two uses of a tensor, which then is
/// in no core's cache.
const FORGOTTEN: usize = 32 << 20;

/// Between two kernels a training keeps its books for about so long, and the other threads fall asleep.
const GAP: Duration = Duration::from_micros(150);

/// A kernel is timed at least so often …
const LEAST_TIMES: usize = 3;
/// … and up to so often, as long as all times together are shorter than this.
const MOST_TIMES: usize = 9;
const MOST_SECONDS: f64 = 0.009;

/// Times probes on the CPU.
pub(crate) struct Clock {
    forgotten: Vec<u64>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { forgotten: vec![1; FORGOTTEN / size_of::<u64>()] }
    }

    /// The work of a probe, and the lower quartile of its times: other programs only make a time longer. `None` if the probe
    /// has no operation of its kind.
    pub(crate) fn time(&mut self, probe: &Probe) -> Option<Sample> {
        let work = recorded(probe)?;
        let mut prepare = (probe.on)(&Device::flex());
        // The first run starts threads and fills the allocator.
        prepare()();
        let mut seconds = Vec::with_capacity(MOST_TIMES);
        while seconds.len() < LEAST_TIMES
            || seconds.len() < MOST_TIMES && seconds.iter().sum::<f64>() < MOST_SECONDS
        {
            let ready = prepare();
            self.forget_caches();
            let begun = Instant::now();
            ready();
            seconds.push(begun.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        Some(Sample { work, seconds: seconds[seconds.len() / 4] })
    }

    /// Leaves caches and threads as a training does between two kernels.
    pub(crate) fn forget_caches(&mut self) {
        self.forgotten.par_chunks_mut(1 << 13).for_each(|part| {
            part.iter_mut().step_by(LINE).for_each(|word| *word = word.wrapping_add(1));
        });
        let begun = Instant::now();
        while begun.elapsed() < GAP {
            std::hint::spin_loop();
        }
    }
}

/// Words of a cache line.
const LINE: usize = 8;

/// The work of a probe, as a plan sees it.
fn recorded(probe: &Probe) -> Option<Work> {
    let device = Device::capture();
    let graph = device.clone().capture_scope(|scope| {
        (probe.on)(&device)()();
        scope.complete([], [])
    });
    let operations: Vec<OperationIr> = graph.ok()?.graph.operations;
    operations.iter().rev().filter_map(Work::of).find(|work| work.kind.starts_with(probe.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes;

    #[test]
    fn every_probe_has_work_of_its_kind() {
        for probe in probes::all() {
            let work = recorded(&probe).unwrap_or_else(|| panic!("{}", probe.kind));
            assert!(work.bytes > 0.0 && work.sizes.iter().all(|size| *size >= 1.0), "{work:?}");
        }
    }
}
