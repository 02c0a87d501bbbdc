use oomph_plan::time::Sample;

use crate::{Calibration, MachineKey, probe::Clock, probes};

/// Each kernel is timed in so many rounds: what else ran in one of them made some kernels slower.
const ROUNDS: usize = 2;

/// So much longer, a time was disturbed.
const DISTURBED: f64 = 1.25;

/// The mean of both times, or the shorter one if the other was disturbed.
fn of_both(one: Sample, other: Sample) -> Sample {
    let [shorter, longer] = match one.seconds < other.seconds {
        true => [one, other],
        false => [other, one],
    };
    let is_disturbed = longer.seconds > DISTURBED * shorter.seconds;
    let seconds = if is_disturbed { shorter.seconds } else { (shorter.seconds + longer.seconds) / 2.0 };
    Sample { seconds, ..shorter }
}

/// Measures the kernels of this machine on the running compute threads. `observe` gets how many timings of all are done. What an
/// operation takes beside its kernel is left at 0: whole trainings show it. Nothing is written.
pub fn measure(machine: MachineKey, mut observe: impl FnMut(usize, usize)) -> Calibration {
    let probes = probes::all();
    let mut clock = Clock::new();
    let mut samples: Vec<Option<Sample>> = vec![None; probes.len()];
    let all = ROUNDS * probes.len();
    for round in 0..ROUNDS {
        for (index, (probe, sample)) in probes.iter().zip(&mut samples).enumerate() {
            observe(round * probes.len() + index, all);
            let again = clock.time(probe);
            *sample = match (sample.take(), again) {
                (Some(before), Some(now)) => Some(of_both(before, now)),
                (one, other) => one.or(other),
            };
        }
    }
    observe(all, all);
    Calibration { machine, overhead_seconds: 0.0, samples: samples.into_iter().flatten().collect() }
}
