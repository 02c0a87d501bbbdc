//! Taking work: a trial to begin, to promote, or to continue for a worker that is gone.

use oomph_config::sections::tune::{Parallel, Sampler};
use oomph_search::{Draw, Next, Point, Trial, TrialState};
use oomph_study::{Claim, Decision, DecisionKind, Seen, StudyState, Take};

use crate::{TuneError, bench::Bench, tuner::Tuner};

/// What a free slot got.
pub(crate) enum Taken {
    /// Work on a trial.
    Job(Box<Job>),
    /// Nothing, until the journal has more than these records.
    Wait(u64),
    /// Nothing any more.
    Finished,
}

/// The right to work on a trial, and what the decision about it saw.
pub(crate) struct Job {
    pub(crate) claim: Claim,
    pub(crate) basis: Basis,
}

/// What a decision sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Basis {
    pub(crate) seen: Seen,
    pub(crate) trials: Vec<Trial>,
    /// The first candidates of a new trial.
    pub(crate) candidates: Vec<Point>,
}

/// What was chosen under the lock.
enum Choice {
    Take(Take, Basis),
    Wait,
    Finished,
}

impl<B: Bench> Tuner<'_, B> {
    /// Takes work, if there is some.
    pub(crate) fn take(&self) -> Result<Taken, TuneError> {
        let (mut outcome, mut records) = (None, 0);
        let claim = self.study().take(|state, lapsed| {
            records = state.records();
            let choice = self.choose(state, lapsed);
            let take = if let Choice::Take(take, _) = &choice { Some(take.clone()) } else { None };
            outcome = Some(choice);
            take
        })?;
        Ok(match (claim, outcome) {
            (Some(claim), Some(Choice::Take(_, basis))) => {
                self.begin(&claim);
                Taken::Job(Box::new(Job { claim, basis }))
            }
            (_, Some(Choice::Finished)) => Taken::Finished,
            _ => Taken::Wait(records),
        })
    }

    /// How many trials a repeatable study runs at the same time, over all workers.
    fn workers(&self) -> Option<usize> {
        match self.tune.parallel {
            Parallel::Trials(workers) if self.tune.deterministic => Some(workers),
            Parallel::Trials(_) | Parallel::Auto => None,
        }
    }

    fn choose(&self, state: &StudyState, lapsed: &[usize]) -> Choice {
        if let Some(&number) = lapsed.first() {
            let seen = state.seen(state.jobs().last_of(number), self.workers());
            let trials = state.view(seen);
            return Choice::Take(Take::Lapsed(number), Basis { seen, trials, candidates: Vec::new() });
        }
        let is_undecided = |trial: &oomph_study::StoredTrial| trial.is_undecided();
        // The grid takes cells in turn, and does not know those that are being decided.
        let is_early = self.tune.sampler == Sampler::Grid && state.trials().iter().any(is_undecided);
        if is_early {
            return Choice::Wait;
        }
        let mut seen = state.seen(state.jobs().count(), self.workers());
        loop {
            if !state.is_ready(seen) {
                return Choice::Wait;
            }
            match (self.choose_by(state, seen), seen.job, &mut seen.results_below) {
                // In a study that repeats, nothing can be done by what this decision sees: it sees one result more.
                (Choice::Wait, Some(job), Some(below)) if *below < job => *below += 1,
                (choice, ..) => return choice,
            }
        }
    }

    /// The choice by what a decision sees.
    fn choose_by(&self, state: &StudyState, seen: Seen) -> Choice {
        let trials = state.view(seen);
        let waiting = state.trials().iter().find(|trial| trial.stage() == TrialState::Waiting);
        let waiting = waiting.map(|trial| trial.number);
        let mut basis = Basis { seen, trials, candidates: Vec::new() };
        let mut new = waiting;
        if waiting.is_none() && state.trials().len() < self.tune.trials {
            let draw = Draw { seed: self.policy.seed, number: state.trials().len(), round: 0 };
            basis.candidates = self.policy.propose(&basis.trials, draw);
            // A grid has an end.
            new = (!basis.candidates.is_empty()).then_some(draw.number);
        }
        match self.policy.next(&basis.trials, new) {
            Next::Resume { number, .. } => {
                let kind = if new.is_some() { DecisionKind::Promote } else { DecisionKind::Finish };
                let decision = decision(kind, seen, self.policy.scheduler_name);
                Choice::Take(Take::Promote(number, decision), basis)
            }
            Next::Begin { .. } => Choice::Take(waiting.map_or(Take::Reserve, Take::Waiting), basis),
            Next::Wait => Choice::Wait,
            // Trials that the view does not show yet may still tell something.
            Next::Finished if state.trials().iter().any(|trial| trial.stage() == TrialState::Running) => {
                Choice::Wait
            }
            Next::Finished => Choice::Finished,
        }
    }
}

pub(crate) fn decision(kind: DecisionKind, seen: Seen, rule: &str) -> Decision {
    Decision { kind, seen, rule: rule.to_owned(), rank: 0, rounds: 0 }
}
