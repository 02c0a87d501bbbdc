use std::collections::BTreeMap;

use oomph_search::{Point, Trial, TrialState as Stage};
use serde_json::Value;

use super::lease::{LEASE, Lease, PAUSED, Pause};
use crate::{
    journal::{Attributes, Distribution, Number, TrialState, typed},
    study::{Decision, DecisionKind},
};

/// A trial, with all that the journal says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTrial {
    /// Its id in the journal.
    pub id: u64,
    /// Its number in the study.
    pub number: usize,
    /// Its state in Optuna's terms. [`stage`](Self::stage) has ours.
    pub state: TrialState,
    /// The internal value of each parameter.
    pub point: Point,
    /// The distribution of each parameter.
    pub distributions: BTreeMap<String, Distribution>,
    /// Its values at the end; studies of oomph have one.
    pub values: Vec<f64>,
    /// Values by step.
    pub intermediate: BTreeMap<i64, f64>,
    /// Attributes of the user, and of oomph.
    pub user_attributes: Attributes,
    /// Attributes of Optuna.
    pub system_attributes: Attributes,
    /// When it began, as the journal has it.
    pub started: Option<String>,
    /// When it ended, as the journal has it.
    pub ended: Option<String>,
    /// How many records the journal had when it ended.
    pub ended_at: Option<u64>,
    /// Who works on it, or did last.
    pub lease: Option<Lease>,
}

impl StoredTrial {
    /// How far it is.
    pub fn stage(&self) -> Stage {
        match self.state {
            TrialState::Waiting => Stage::Waiting,
            TrialState::Running if self.paused_at().is_some() => Stage::Paused,
            TrialState::Running => Stage::Running,
            _ if self.violation() > 0.0 => Stage::Infeasible,
            TrialState::Complete if self.value().is_some_and(|value| !value.is_nan()) => Stage::Complete,
            TrialState::Pruned => Stage::Pruned,
            TrialState::Complete | TrialState::Fail => Stage::Failed,
        }
    }

    /// Its parameters in configuration terms.
    pub fn parameters(&self) -> BTreeMap<String, Value> {
        let external = |name: &String, value: &f64| self.distributions.get(name)?.external(*value);
        let named =
            self.point.iter().filter_map(|(name, value)| Some((name.clone(), external(name, value)?)));
        named.collect()
    }

    /// Its value, once it is complete.
    pub fn value(&self) -> Option<f64> {
        self.values.first().copied().filter(|_| self.state == TrialState::Complete)
    }

    /// The steps after which it was paused, while it is paused.
    pub fn paused_at(&self) -> Option<u64> {
        let pause: Pause = typed(self.user_attributes.get(PAUSED)?)?;
        let is_current = self.lease.as_ref().is_some_and(|lease| lease.attempt == pause.attempt);
        (self.state == TrialState::Running && is_current).then_some(pause.step)
    }

    /// By how much it violates its constraints; above 0 it is infeasible. Optuna 5 also has an attribute for each.
    pub fn violation(&self) -> f64 {
        let list: Option<Vec<Number>> = self.system_attributes.get("constraints").and_then(typed);
        let named = self.system_attributes.range("constraints:".to_owned()..);
        let named = named.take_while(|(key, _)| key.starts_with("constraints:"));
        let named = named.filter_map(|(_, value)| typed::<Number>(value));
        list.into_iter().flatten().chain(named).fold(0.0, |most, Number(value)| f64::max(most, value))
    }

    /// The values that whoever enqueued the trial demands, by parameter; other parameters are free.
    pub fn fixed(&self) -> BTreeMap<String, Value> {
        self.system_attributes.get("fixed_params").and_then(typed).unwrap_or_default()
    }

    /// Why it ended as it did, if a worker of oomph said so.
    pub fn reason(&self) -> Option<&str> {
        self.user_attributes.get(crate::study::REASON)?.as_str()
    }

    /// As samplers and schedulers see it. Steps below 0 are left out.
    pub fn trial(&self) -> Trial {
        let steps =
            self.intermediate.iter().filter_map(|(step, value)| Some((u64::try_from(*step).ok()?, *value)));
        let state = self.stage();
        Trial {
            violation: self.violation(),
            number: self.number,
            point: self.point.clone(),
            state,
            value: self.value().filter(|_| state == Stage::Complete),
            steps: steps.collect(),
        }
    }

    /// Whether it runs, and nobody works on it, as far as can be told at once: it was given back, or its worker was a process of
    /// this machine that is gone.
    pub fn is_abandoned(&self) -> bool {
        self.stage() == Stage::Running && self.lease.as_ref().is_some_and(Lease::is_abandoned)
    }

    /// Whether its point is complete. A worker that takes a trial over settles it otherwise. Trials of other programs have no
    /// decision, and any value counts.
    pub fn is_decided(&self) -> bool {
        match self.lease {
            Some(_) => self.user_attributes.contains_key(crate::study::DECISION),
            None => !self.point.is_empty(),
        }
    }

    /// Whether it runs, and nobody has decided its point yet.
    pub fn is_undecided(&self) -> bool {
        self.state == TrialState::Running && !self.is_decided()
    }

    /// Whether its latest decision is that it continues from its rung.
    pub(super) fn is_promoted(&self) -> bool {
        let decision = self.user_attributes.get(crate::study::DECISION).cloned().map(serde_json::from_value);
        matches!(decision, Some(Ok(Decision { kind: DecisionKind::Promote | DecisionKind::Finish, .. })))
    }

    /// Sets an attribute of the user. The lease has rules of its own.
    pub(crate) fn set_user_attribute(&mut self, key: String, value: Value) {
        if key == LEASE
            && let Some(next) = typed::<Lease>(&value)
        {
            if self.lease.as_ref().is_some_and(|lease| !lease.accepts(&next)) {
                return;
            }
            self.lease = Some(next);
        }
        self.user_attributes.insert(key, value);
    }
}
