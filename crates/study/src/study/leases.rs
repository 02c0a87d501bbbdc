use std::{collections::BTreeMap, time::Duration};

use oomph_search::TrialState as Stage;

use crate::state::{Lease, StudyState};

/// The leases of running trials, as this reader saw them by its own clock.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    seen: BTreeMap<usize, Beat>,
    now: Duration,
}

#[derive(Debug)]
struct Beat {
    lease: Lease,
    since: Duration,
}

impl Leases {
    /// Notes what was read at the time `now`.
    pub(crate) fn observe(&mut self, state: &StudyState, now: Duration) {
        self.now = now;
        let mut seen = std::mem::take(&mut self.seen);
        for trial in state.trials().iter().filter(|trial| trial.stage() == Stage::Running) {
            let Some(lease) = &trial.lease else { continue };
            let beat = match seen.remove(&trial.number) {
                Some(beat) if beat.lease == *lease => beat,
                _ => Beat { lease: lease.clone(), since: now },
            };
            self.seen.insert(trial.number, beat);
        }
    }

    /// The running trials of other workers than `worker` that gave no sign of life for the time that they had promised, or whose
    /// process is gone.
    pub(crate) fn lapsed(&self, worker: &str) -> Vec<usize> {
        let is_over = |beat: &Beat| {
            let is_silent = self.now.saturating_sub(beat.since) > beat.lease.time();
            beat.lease.worker != worker && (is_silent || beat.lease.is_abandoned())
        };
        self.seen.iter().filter(|(_, beat)| is_over(beat)).map(|(number, _)| *number).collect()
    }

    /// How long it takes at most until another worker than `worker` has given a sign of life, or a trial of it is free.
    pub(crate) fn next_end(&self, worker: &str) -> Option<Duration> {
        let others = self.seen.values().filter(|beat| beat.lease.worker != worker);
        others.map(|beat| (beat.since + beat.lease.time()).saturating_sub(self.now)).min()
    }

    /// Whether the lease that this reader saw last is due for renewal: a third of its time is over.
    pub(crate) fn is_due(&self, number: usize) -> bool {
        self.seen.get(&number).is_none_or(|beat| self.now.saturating_sub(beat.since) >= beat.lease.time() / 3)
    }
}
