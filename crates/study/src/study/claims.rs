use std::time::Duration;

use oomph_search::{Point, TrialState as Stage};
use serde::Serialize;
use serde_json::Value;

use super::{DECISION, Decision, Leases, Setup, Study, setup::check_kind};
use crate::{
    error::StudyError,
    journal::{
        CreateTrial, Distribution, Number, Operation, Owner, SetTrialState, TrialAttribute, TrialParameter,
        TrialState,
    },
    process::ProcessName,
    state::{LEASE, Lease, PAUSED, StoredTrial, StudyState},
};

/// The right of a worker to change a trial. It ends with the trial, with a pause, or once another worker took the trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The number of the trial.
    pub number: usize,
    /// Its id in the journal.
    pub id: u64,
    /// How often the trial was claimed until now, counted from 1. Above 1 the trial has a beginning: see its checkpoints.
    pub attempt: u64,
    /// How often the trial was claimed from a worker that gave no sign of life.
    pub lost: u64,
}

/// Which trial a worker takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Take {
    /// A new trial whose point is decided later, by [`Change::Settle`](super::Change::Settle): planning candidates takes longer
    /// than a lock may be held.
    Reserve,
    /// A new trial with this point.
    Begin(Point, Decision),
    /// An enqueued trial. Its [`fixed`](StoredTrial::fixed) values are part of the point that [`Change::Settle`](super::Change::Settle) sets.
    Waiting(usize),
    /// A paused trial.
    Promote(usize, Decision),
    /// A running trial of a worker that gave no sign of life.
    Lapsed(usize),
}

impl Study {
    /// Takes a trial under the lock. `choose` gets the fresh study and the numbers of trials whose lease is over;
    /// `None` takes none.
    ///
    /// # Errors
    /// The trial is not in the state that the choice needs, or a value is not in its domain; as [`update`](Self::update).
    pub fn take(
        &mut self,
        choose: impl FnOnce(&StudyState, &[usize]) -> Option<Take>,
    ) -> Result<Option<Claim>, StudyError> {
        let setup = self.setup.clone();
        let [worker, date] = [self.worker.name.clone(), self.worker.clock.date()];
        let process = self.worker.process.clone();
        let taker = Taker { worker, process, date, time: self.worker.lease, setup };
        self.transact_existing(|state, leases| match choose(state, &leases.lapsed(&taker.worker)) {
            None => Ok((Vec::new(), None)),
            Some(take) => {
                taker.take(state, leases, take).map(|(operations, claim)| (operations, Some(claim)))
            }
        })
    }

    /// The running trials of other workers that gave no sign of life for the time that they had promised, or whose process is
    /// gone, as of the last reading.
    pub fn lapsed(&self) -> Vec<usize> {
        self.leases.lapsed(&self.worker.name)
    }

    /// After which time the first trial of another worker is free, if the worker gives no sign of life until then. `None` where no
    /// other worker has a trial.
    pub fn next_lapse(&self) -> Option<Duration> {
        self.leases.next_end(&self.worker.name)
    }

    /// Renews the leases that are due, at most each third of their time, and returns the claims that are lost.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn renew(&mut self, claims: &[Claim]) -> Result<Vec<Claim>, StudyError> {
        self.refresh()?;
        let lost = |state: &StudyState, worker: &str| -> Vec<Claim> {
            claims.iter().filter(|claim| held(state, worker, claim).is_err()).cloned().collect()
        };
        if !claims.iter().any(|claim| self.leases.is_due(claim.number)) {
            return Ok(lost(&self.state, &self.worker.name));
        }
        let worker = self.worker.name.clone();
        self.transact_existing(|state, leases| {
            let due = claims.iter().filter(|claim| leases.is_due(claim.number));
            let operations = due.filter_map(|claim| {
                let (id, lease) = held(state, &worker, claim).ok()?;
                Some(lease_record(id, &Lease { beat: lease.beat + 1, ..lease.clone() }))
            });
            Ok((operations.collect(), lost(state, &worker)))
        })
    }

    /// Ends all paused trials as pruned, and returns their numbers: the study is over. Optuna would show them as running.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn prune_paused(&mut self, reason: &str) -> Result<Vec<usize>, StudyError> {
        let date = self.worker.clock.date();
        self.transact_existing(|state, _| {
            let paused = state.trials().iter().filter(|trial| trial.stage() == Stage::Paused);
            let numbers = paused.clone().map(|trial| trial.number).collect();
            let operations = paused.flat_map(|trial| {
                let id = trial.id;
                [
                    attribute_record(id, super::REASON, reason.into()),
                    ended(id, TrialState::Pruned, None, &date),
                ]
            });
            Ok((operations.collect(), numbers))
        })
    }
}

/// The worker that takes a trial.
struct Taker {
    worker: String,
    process: Option<ProcessName>,
    date: String,
    time: Duration,
    setup: Setup,
}

impl Taker {
    fn take(
        &self,
        state: &StudyState,
        leases: &Leases,
        take: Take,
    ) -> Result<(Vec<Operation>, Claim), StudyError> {
        match take {
            Take::Reserve => Ok(self.begin(state, None)),
            Take::Begin(point, decision) => {
                let parameters = parameters(&self.setup, state, point)?;
                Ok(self.begin(state, Some((parameters, decision))))
            }
            Take::Waiting(number) => {
                let trial = expect(state, number, Stage::Waiting)?;
                let (lease, claim) = self.claim(trial, 0);
                // The lease comes first: cut short after it, the trial still waits.
                let runs = SetTrialState {
                    trial_id: trial.id,
                    state: TrialState::Running,
                    values: None,
                    datetime_start: Some(self.date.clone()),
                    datetime_complete: None,
                };
                Ok((vec![lease, Operation::TrialState(runs)], claim))
            }
            Take::Promote(number, decision) => {
                let trial = expect(state, number, Stage::Paused)?;
                let (lease, claim) = self.claim(trial, 0);
                // The lease comes first: it alone ends the pause.
                let decision = decision_record(trial.id, &decision);
                Ok((vec![lease, decision, attribute_record(trial.id, PAUSED, Value::Null)], claim))
            }
            Take::Lapsed(number) => {
                let trial = expect(state, number, Stage::Running)?;
                if !leases.lapsed(&self.worker).contains(&number) {
                    let now = owner(trial);
                    return Err(StudyError::LeaseLost { number, now });
                }
                let (lease, claim) = self.claim(trial, 1);
                Ok((vec![lease], claim))
            }
        }
    }

    fn claim(&self, trial: &StoredTrial, lost: u64) -> (Operation, Claim) {
        let before = trial.lease.as_ref();
        let attempt = before.map_or(0, |lease| lease.attempt) + 1;
        let lost = before.map_or(0, |lease| lease.lost) + lost;
        let lease = self.lease(attempt, lost);
        (lease_record(trial.id, &lease), Claim { number: trial.number, id: trial.id, attempt, lost })
    }

    fn lease(&self, attempt: u64, lost: u64) -> Lease {
        let seconds = self.time.as_secs_f64();
        Lease { worker: self.worker.clone(), attempt, beat: 0, lost, seconds, process: self.process.clone() }
    }

    /// A new trial is one record: it is there with its lease, or not at all.
    fn begin(
        &self,
        state: &StudyState,
        decided: Option<(Vec<DecidedParameter>, Decision)>,
    ) -> (Vec<Operation>, Claim) {
        let mut trial = CreateTrial::new(state.id().unwrap_or_default());
        trial.datetime_start = Some(self.date.clone());
        trial.user_attrs.insert(LEASE.into(), as_value(&self.lease(1, 0)));
        if let Some((parameters, decision)) = decided {
            trial.user_attrs.insert(DECISION.into(), as_value(&decision));
            for parameter in parameters {
                trial.params.insert(parameter.name.clone(), Number(parameter.value));
                trial.distributions.insert(parameter.name, parameter.distribution);
            }
        }
        let claim = Claim { number: state.trials().len(), id: state.next_trial(), attempt: 1, lost: 0 };
        (vec![Operation::CreateTrial(Box::new(trial))], claim)
    }
}

/// A parameter of a point, checked against the space and the study.
pub(super) struct DecidedParameter {
    name: String,
    value: f64,
    distribution: Distribution,
}

impl DecidedParameter {
    pub(super) fn record(self, trial_id: u64) -> Operation {
        Operation::Parameter(TrialParameter {
            trial_id,
            param_name: self.name,
            param_value_internal: Number(self.value),
            distribution: self.distribution,
        })
    }
}

/// The parameters of a point.
///
/// # Errors
/// The space has no such parameter or value, or earlier trials have the parameter with another kind.
pub(super) fn parameters(
    setup: &Setup,
    state: &StudyState,
    point: Point,
) -> Result<Vec<DecidedParameter>, StudyError> {
    let decided = |(name, value): (String, f64)| {
        let distribution = Distribution::Known(setup.parameter(&name)?.domain.clone());
        if !distribution.contains(value) {
            return Err(StudyError::OutsideDomain { name, value: value.to_string() });
        }
        check_kind(state, &name, &distribution)?;
        Ok(DecidedParameter { name, value, distribution })
    };
    point.into_iter().map(decided).collect()
}

fn expect(state: &StudyState, number: usize, expected: Stage) -> Result<&StoredTrial, StudyError> {
    let trial = state.trials().get(number);
    let stage = trial.map_or("absent", |trial| stage_name(trial.stage()));
    trial.filter(|trial| trial.stage() == expected).ok_or(StudyError::WrongState {
        number,
        state: stage,
        expected: stage_name(expected),
    })
}

/// How far a trial is, as a word.
pub(crate) const fn stage_name(state: Stage) -> &'static str {
    match state {
        Stage::Waiting => "waiting",
        Stage::Running => "running",
        Stage::Paused => "paused",
        Stage::Complete => "complete",
        Stage::Pruned => "pruned",
        Stage::Failed => "failed",
        Stage::Infeasible => "infeasible",
    }
}

/// The trial of a claim, if the claim still holds.
///
/// # Errors
/// The trial has ended, is paused, or is another worker's.
pub(super) fn held<'a>(
    state: &'a StudyState,
    worker: &str,
    claim: &Claim,
) -> Result<(u64, &'a Lease), StudyError> {
    let lost = |now| StudyError::LeaseLost { number: claim.number, now };
    let trial = state.trials().get(claim.number).ok_or_else(|| lost("it does not exist".into()))?;
    match &trial.lease {
        Some(lease)
            if trial.stage() == Stage::Running
                && lease.attempt == claim.attempt
                && lease.worker == worker =>
        {
            Ok((trial.id, lease))
        }
        _ => Err(lost(owner(trial))),
    }
}

fn owner(trial: &StoredTrial) -> String {
    match (&trial.lease, trial.stage()) {
        (Some(lease), Stage::Running) => {
            format!("`{}` works on it, attempt {}", oomph_core::printable(&lease.worker), lease.attempt)
        }
        (None, Stage::Running) => "a worker of another program works on it".into(),
        (_, stage) => format!("it is {}", stage_name(stage)),
    }
}

pub(super) fn lease_record(id: u64, lease: &Lease) -> Operation {
    attribute_record(id, LEASE, as_value(lease))
}

pub(super) fn decision_record(id: u64, decision: &Decision) -> Operation {
    attribute_record(id, DECISION, as_value(decision))
}

/// A value of our own as JSON.
pub(super) fn as_value(of: &impl Serialize) -> Value {
    // Structs of texts and numbers always are.
    serde_json::to_value(of).unwrap_or_default()
}

pub(super) fn attribute_record(trial_id: u64, key: &str, value: Value) -> Operation {
    Operation::TrialAttribute(TrialAttribute { trial_id, owner: Owner::User, key: key.into(), value })
}

pub(super) fn ended(trial_id: u64, state: TrialState, value: Option<f64>, date: &str) -> Operation {
    Operation::TrialState(SetTrialState {
        trial_id,
        state,
        values: value.map(|value| vec![Number(value)]),
        datetime_start: None,
        datetime_complete: Some(date.to_owned()),
    })
}
