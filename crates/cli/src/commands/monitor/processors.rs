use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use oomph_memory::processes::Process;

/// The CPU usage of processes since their previous sample.
#[derive(Debug, Default)]
pub(super) struct Processors {
    /// The time of the sample and the processor time until then, by process id and start: the system reuses ids.
    seen: HashMap<(u32, Duration), (Instant, Duration)>,
}

impl Processors {
    /// The CPU usage in percent of one core. The first sample of a process covers the time since its start.
    pub(super) fn percent(&mut self, process: &Process, now: Instant) -> Option<f64> {
        let before = self.seen.insert((process.pid, process.started), (now, process.processor_time));
        let (took, time) = match before {
            Some((then, taken)) => {
                (process.processor_time.saturating_sub(taken), now.saturating_duration_since(then))
            }
            None => (process.processor_time, process.age),
        };
        (!time.is_zero()).then(|| 100.0 * took.as_secs_f64() / time.as_secs_f64())
    }

    /// Forgets the processes that were not sampled at `now`.
    pub(super) fn forget_before(&mut self, now: Instant) {
        self.seen.retain(|_, (then, _)| *then >= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_since_the_last_sample() {
        let process = |seconds| Process {
            pid: 7,
            parent: 1,
            session: 1,
            user: "ada".into(),
            command: Vec::new(),
            executable: None,
            state: None,
            started: Duration::ZERO,
            age: Duration::from_secs(40),
            processor_time: Duration::from_secs(seconds),
            resident_bytes: Default::default(),
            peak_resident_bytes: Default::default(),
        };
        let (mut processors, start) = (Processors::default(), Instant::now());
        assert_eq!(processors.percent(&process(20), start), Some(50.0));
        assert_eq!(processors.percent(&process(24), start + Duration::from_secs(2)), Some(200.0));
        assert_eq!(processors.percent(&process(24), start + Duration::from_secs(2)), None);
        processors.forget_before(start + Duration::from_secs(3));
        assert!(processors.seen.is_empty());
    }
}
