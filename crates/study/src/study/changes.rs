use oomph_search::Point;
use serde_json::Value;

use super::{
    Claim, Decision, REASON, Setup, Study,
    claims::{as_value, attribute_record, decision_record, ended, held, lease_record, parameters},
};
use crate::{
    error::StudyError,
    journal::{Intermediate, Number, Operation, Owner, TrialAttribute, TrialState},
    state::{Lease, PAUSED, Pause, StudyState},
};

/// A change of a trial by the worker that has its [`Claim`].
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Sets the point of a reserved or enqueued trial.
    Settle(Point, Decision),
    /// Reports a value after some steps.
    Report {
        /// The steps.
        step: u64,
        /// The value, finite.
        value: f64,
    },
    /// Sets an attribute, such as a measured peak or the run directory. Keys of oomph start with `oomph:`.
    Attribute {
        /// Its name.
        key: String,
        /// Its value.
        value: Value,
    },
    /// Pauses the trial at a rung, and gives the claim back. For Optuna the trial still runs.
    Pause {
        /// After how many steps.
        step: u64,
        /// Why.
        decision: Option<Decision>,
    },
    /// Gives the claim back: any worker may take the trial over at once, as one whose lease is over.
    Release,
    /// Ends the trial with its value. A value that is not finite is a failure, as in Optuna.
    Complete {
        /// The value.
        value: f64,
    },
    /// Ends the trial before its end; its reported values say how good it was.
    Prune {
        /// Why, in words.
        reason: String,
        /// Why, to make it again.
        decision: Option<Decision>,
    },
    /// Ends the trial without a value.
    Fail {
        /// Why.
        reason: String,
    },
    /// Ends the trial since it does not fit. In Optuna's terms it failed and has `constraints: [violation]`: samplers of Optuna
    /// learn nothing wrong from it, and the dashboard shows it.
    Infeasible {
        /// By how much, above 0: such as the planned peak divided by the limit, minus 1.
        violation: f64,
        /// Why.
        reason: String,
    },
}

impl Study {
    /// Changes a trial, in one transaction. The lease is renewed with it where that is due.
    ///
    /// # Errors
    /// The claim is lost: nothing is written, and the worker should stop. A reported value is not finite, or a point is not in
    /// the space. As [`update`](Self::update).
    pub fn record(&mut self, claim: &Claim, changes: Vec<Change>) -> Result<(), StudyError> {
        let setup = self.setup.clone();
        let [worker, date] = [self.worker.name.clone(), self.worker.clock.date()];
        self.transact_existing(|state, leases| {
            let (id, lease) = held(state, &worker, claim)?;
            let writer = Writer { setup: &setup, state, claim, worker: &worker, id, date: &date };
            let mut operations = Vec::new();
            if leases.is_due(claim.number) {
                operations.push(lease_record(id, &Lease { beat: lease.beat + 1, ..lease.clone() }));
            }
            for change in changes {
                writer.write(change, &mut operations)?;
            }
            Ok((operations, ()))
        })
    }
}

struct Writer<'a> {
    setup: &'a Setup,
    state: &'a StudyState,
    claim: &'a Claim,
    worker: &'a str,
    id: u64,
    date: &'a str,
}

impl Writer<'_> {
    /// The records of a change. The one that ends the trial comes last: ended trials take no more attributes.
    fn write(&self, change: Change, to: &mut Vec<Operation>) -> Result<(), StudyError> {
        match change {
            Change::Settle(point, decision) => {
                let parameters = parameters(self.setup, self.state, point)?;
                to.extend(parameters.into_iter().map(|parameter| parameter.record(self.id)));
                // Last: the decision says that the point is complete.
                to.push(decision_record(self.id, &decision));
            }
            Change::Report { step, value } => {
                let number = self.claim.number;
                if !value.is_finite() {
                    return Err(StudyError::NotFinite { number, step, value });
                }
                to.push(Operation::Intermediate(Intermediate {
                    trial_id: self.id,
                    step: i64::try_from(step).unwrap_or(i64::MAX),
                    intermediate_value: Number(value),
                }));
            }
            Change::Attribute { key, value } => to.push(attribute_record(self.id, &key, value)),
            Change::Pause { step, decision } => {
                if let Some(decision) = decision {
                    to.push(decision_record(self.id, &decision));
                }
                let pause = Pause { step, attempt: self.claim.attempt };
                to.push(attribute_record(self.id, PAUSED, as_value(&pause)));
            }
            Change::Release => {
                let lease = held(self.state, self.worker, self.claim)?.1;
                to.push(lease_record(
                    self.id,
                    &Lease { beat: lease.beat + 1, seconds: 0.0, ..lease.clone() },
                ));
            }
            Change::Complete { value } if value.is_finite() => {
                to.push(ended(self.id, TrialState::Complete, Some(value), self.date));
            }
            Change::Complete { value } => self.fail(format!("its value is {value}"), to),
            Change::Prune { reason, decision } => {
                if let Some(decision) = decision {
                    to.push(decision_record(self.id, &decision));
                }
                to.push(attribute_record(self.id, REASON, reason.into()));
                to.push(ended(self.id, TrialState::Pruned, None, self.date));
            }
            Change::Fail { reason } => self.fail(reason, to),
            Change::Infeasible { violation, reason } => {
                // JSON has no infinity, and 0 would be feasible.
                let violation =
                    if violation.is_nan() { 1.0 } else { violation.clamp(f64::MIN_POSITIVE, f64::MAX) };
                to.push(Operation::TrialAttribute(TrialAttribute {
                    trial_id: self.id,
                    owner: Owner::System,
                    key: "constraints".into(),
                    value: vec![violation].into(),
                }));
                self.fail(reason, to);
            }
        }
        Ok(())
    }

    fn fail(&self, reason: String, to: &mut Vec<Operation>) {
        to.push(attribute_record(self.id, REASON, reason.into()));
        to.push(ended(self.id, TrialState::Fail, None, self.date));
    }
}
