//! The work on trials, in the order in which it was decided.

use std::collections::BTreeMap;

use oomph_search::{Trial, TrialState};

use super::StudyState;

/// Work on a trial: from its beginning, or from a rung, to the next rung or to its end. A worker that takes over a trial of a
/// lost worker goes on with the same job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of the trial.
    pub number: usize,
    /// What it came to, once it is done.
    pub outcome: Option<JobOutcome>,
}

/// What a job came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The trial stands at a rung, after these steps.
    Paused(u64),
    /// The trial has ended.
    Over,
}

/// The part of a journal that a decision saw.
///
/// In a study that repeats to the byte, the decision about job `job` sees the results of the jobs before `results_below` alone,
/// whatever else the journal has by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Seen {
    /// How many records.
    pub records: u64,
    /// Of a study that repeats: the number of the job that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<usize>,
    /// Of a study that repeats: results of jobs with lower numbers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_below: Option<usize>,
}

/// A trial by the jobs that a decision sees.
#[derive(Default)]
struct Told {
    /// The outcome of its last job whose result is seen.
    outcome: Option<JobOutcome>,
    /// The steps of its last rung whose result is seen.
    reached: Option<u64>,
    /// Whether it has a later job.
    runs: bool,
}

/// All jobs of a study, in the order in which they were decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs(Vec<Job>);

impl Jobs {
    /// The jobs, by number.
    pub fn all(&self) -> &[Job] {
        &self.0
    }

    /// How many there are: the number of the next.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of the last job of a trial; that of the next job, if it has none.
    pub fn last_of(&self, number: usize) -> usize {
        self.0.iter().rposition(|job| job.number == number).unwrap_or(self.0.len())
    }

    /// The steps of the last rung that a trial has reached; `None` before its first.
    pub fn reached(&self, number: usize) -> Option<u64> {
        self.0.iter().rev().filter(|job| job.number == number).find_map(|job| match job.outcome {
            Some(JobOutcome::Paused(step)) => Some(step),
            _ => None,
        })
    }

    /// Notes that a job begins.
    pub(super) fn begin(&mut self, number: usize) {
        self.0.push(Job { number, outcome: None });
    }

    /// Notes what the job of a trial came to. A job that is done stays as it is: paused trials end without one.
    pub(super) fn end(&mut self, number: usize, outcome: JobOutcome) {
        let last = self.0.iter_mut().rev().find(|job| job.number == number);
        if let Some(job) = last.filter(|job| job.outcome.is_none()) {
            job.outcome = Some(outcome);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl StudyState {
    /// All jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// What a decision about job `job` has seen that is made now; in a study of `workers` jobs at the same time that repeats,
    /// results of the jobs up to `job − workers` alone.
    pub fn seen(&self, job: usize, workers: Option<usize>) -> Seen {
        Seen {
            records: self.records,
            job: workers.map(|_| job),
            results_below: workers.map(|workers| (job + 1).saturating_sub(workers.max(1))),
        }
    }

    /// The trials as a decision sees them that has [seen](Self::seen) this much.
    ///
    /// Trials whose result it may not see are shown as running. Trials whose point is not decided yet are left out.
    pub fn view(&self, seen: Seen) -> Vec<Trial> {
        match (seen.job, seen.results_below) {
            (Some(job), Some(below)) => view_of_jobs(self, job, below),
            _ => self
                .trials()
                .iter()
                .filter(|trial| !trial.is_undecided())
                .map(super::StoredTrial::trial)
                .collect(),
        }
    }

    /// Whether a decision that has [seen](Self::seen) this much can be made: in a study that repeats, all results that it sees
    /// must be there, and the points of all jobs before it.
    pub fn is_ready(&self, seen: Seen) -> bool {
        let (Some(job), Some(below)) = (seen.job, seen.results_below) else { return true };
        let is_decided = |job: &Job| self.trials().get(job.number).is_some_and(|trial| !trial.is_undecided());
        self.jobs.count() >= job
            && self.jobs.all().iter().take(job).all(is_decided)
            && self.jobs.all().iter().take(below).all(|job| job.outcome.is_some())
    }
}

/// The trials by the jobs before `job`, with the results of those before `below`.
fn view_of_jobs(state: &StudyState, job: usize, below: usize) -> Vec<Trial> {
    let mut told: BTreeMap<usize, Told> = BTreeMap::new();
    for (index, job) in state.jobs.all().iter().enumerate().take(job) {
        let told = told.entry(job.number).or_default();
        told.runs = index >= below;
        if index < below {
            told.outcome = job.outcome;
            if let Some(JobOutcome::Paused(step)) = job.outcome {
                told.reached = Some(step);
            }
        }
    }
    let as_told = |(number, told): (usize, Told)| {
        let stored = state.trials().get(number).filter(|trial| !trial.is_undecided())?;
        let mut trial = stored.trial();
        match told.outcome.filter(|_| !told.runs) {
            Some(JobOutcome::Over) => {}
            outcome => {
                let is_paused = matches!(outcome, Some(JobOutcome::Paused(_)));
                trial.state = if is_paused { TrialState::Paused } else { TrialState::Running };
                trial.value = None;
                let reached = told.reached;
                trial.steps.retain(|step, _| reached.is_some_and(|reached| *step <= reached));
            }
        }
        Some(trial)
    };
    told.into_iter().filter_map(as_told).collect()
}
