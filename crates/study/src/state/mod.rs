//! A study as its journal tells it.

mod jobs;
mod lease;
mod trial;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use jobs::{Job, JobOutcome, Jobs, Seen};
pub use lease::Lease;
pub(crate) use lease::{LEASE, PAUSED, Pause};
use oomph_core::printable;
use oomph_search::{Direction, TrialState as Stage};
pub use trial::StoredTrial;

use crate::journal::{
    Attributes, CreateStudy, CreateTrial, Distribution, Number, Operation, Owner, Record, SetTrialState,
    StudyAttribute, TrialAttribute, TrialParameter, TrialState,
};
use crate::study::DECISION;

/// A study as the records of its journal make it. Other studies in the journal are counted, and not kept.
///
/// Records are applied as Optuna applies them: what Optuna ignores, such as changes of a trial that has ended, is ignored.
#[derive(Clone, Debug, Default)]
pub struct StudyState {
    name: String,
    records: u64,
    /// The name of each study, by id; `None` once it is deleted.
    studies: Vec<Option<Arc<str>>>,
    /// The names of all studies that are not deleted.
    names: BTreeSet<Arc<str>>,
    study: Option<Header>,
    /// Trials of this study, by number.
    trials: Vec<StoredTrial>,
    /// The number of each trial of the journal, by id; `None` for those of other studies.
    numbers: Vec<Option<usize>>,
    jobs: Jobs,
    /// The first trial that has a parameter, and its distribution there. Later ones must be compatible.
    distributions: BTreeMap<String, FirstUse>,
}

#[derive(Clone, Debug)]
struct Header {
    id: u64,
    directions: Vec<Direction>,
    user_attributes: Attributes,
    system_attributes: Attributes,
}

#[derive(Clone, Debug)]
struct FirstUse {
    number: usize,
    distribution: Distribution,
}

impl Header {
    fn set(&mut self, attribute: StudyAttribute) {
        let attributes = match attribute.owner {
            Owner::User => &mut self.user_attributes,
            Owner::System => &mut self.system_attributes,
        };
        attributes.insert(attribute.key, attribute.value);
    }
}

impl StudyState {
    /// The study `name` of an empty journal: it does not exist yet. An empty name stands for the first study of the journal.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The name of the study.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many records were applied.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether the study exists.
    pub fn exists(&self) -> bool {
        self.study.is_some()
    }

    /// The names of all studies of the journal.
    pub fn studies(&self) -> Vec<String> {
        self.studies.iter().flatten().map(|name| name.to_string()).collect()
    }

    /// The id of the study in the journal.
    pub(crate) fn id(&self) -> Option<u64> {
        self.study.as_ref().map(|study| study.id)
    }

    /// The id that the next study gets.
    pub(crate) fn next_study(&self) -> u64 {
        self.studies.len() as u64
    }

    /// The id that the next trial gets.
    pub(crate) fn next_trial(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Whether small or large values are good.
    pub fn direction(&self) -> Direction {
        let directions = self.study.as_ref().map(|study| study.directions.as_slice()).unwrap_or_default();
        directions.first().copied().unwrap_or(Direction::Minimize)
    }

    /// How many values its trials have. Optuna has studies with several; those of oomph have one.
    pub(crate) fn objectives(&self) -> usize {
        self.study.as_ref().map_or(0, |study| study.directions.len())
    }

    /// An attribute of the study.
    pub fn attribute(&self, owner: Owner, key: &str) -> Option<&serde_json::Value> {
        let study = self.study.as_ref()?;
        match owner {
            Owner::User => study.user_attributes.get(key),
            Owner::System => study.system_attributes.get(key),
        }
    }

    /// All trials of the study, by number.
    pub fn trials(&self) -> &[StoredTrial] {
        &self.trials
    }

    /// The best complete trial; of equal ones the first.
    pub fn best(&self) -> Option<&StoredTrial> {
        let complete = self.trials.iter().filter(|trial| trial.stage() == Stage::Complete);
        complete.reduce(|best, trial| if is_better(self.direction(), trial, best) { trial } else { best })
    }

    /// The distribution of a parameter in earlier trials.
    pub fn distribution(&self, parameter: &str) -> Option<&Distribution> {
        self.distributions.get(parameter).map(|first| &first.distribution)
    }

    /// Applies a record.
    ///
    /// # Errors
    /// The record contradicts itself, where Optuna fails too.
    pub fn apply(&mut self, record: Record) -> Result<(), String> {
        self.records += 1;
        match record.operation {
            Operation::CreateStudy(of) => self.create_study(of),
            Operation::DeleteStudy(of) => self.delete_study(of.study_id),
            Operation::StudyAttribute(of) => {
                if let Some(study) = self.study.as_mut().filter(|study| study.id == of.study_id) {
                    study.set(of);
                }
            }
            Operation::CreateTrial(of) => return self.create_trial(*of),
            Operation::Parameter(of) => self.set_parameter(of),
            Operation::TrialState(of) => set_state(self, of),
            Operation::Intermediate(of) => {
                if let Some(trial) = self.unfinished(of.trial_id) {
                    trial.intermediate.insert(of.step, of.intermediate_value.0);
                }
            }
            Operation::TrialAttribute(of) => set_trial_attribute(self, of),
            Operation::Discard => {}
        }
        Ok(())
    }

    /// The number of the trial of an id, if it is of this study.
    pub(crate) fn number(&self, id: u64) -> Option<usize> {
        *self.numbers.get(usize::try_from(id).ok()?)?
    }

    /// The trial of an id, if it is of this study and has not ended.
    fn unfinished(&mut self, id: u64) -> Option<&mut StoredTrial> {
        let number = self.number(id)?;
        self.trials.get_mut(number).filter(|trial| !trial.state.is_finished())
    }

    fn create_study(&mut self, created: CreateStudy) {
        let name: Arc<str> = created.study_name.into();
        if !self.names.insert(name.clone()) {
            return;
        }
        if self.name.is_empty() && self.studies.is_empty() {
            self.name = name.to_string();
        }
        if *name == *self.name {
            self.study = Some(Header {
                id: self.next_study(),
                directions: created.directions,
                user_attributes: Attributes::new(),
                system_attributes: Attributes::new(),
            });
        }
        self.studies.push(Some(name));
    }

    fn delete_study(&mut self, id: u64) {
        let study = usize::try_from(id).ok().and_then(|id| self.studies.get_mut(id));
        if let Some(name) = study.and_then(Option::take) {
            self.names.remove(&name);
        }
        if self.id() == Some(id) {
            self.study = None;
            self.trials.clear();
            self.jobs.clear();
            self.distributions.clear();
            self.numbers.iter_mut().for_each(|number| *number = None);
        }
    }

    fn create_trial(&mut self, created: CreateTrial) -> Result<(), String> {
        let exists = usize::try_from(created.study_id)
            .ok()
            .and_then(|id| self.studies.get(id))
            .is_some_and(Option::is_some);
        if !exists {
            return Ok(());
        }
        if self.id() != Some(created.study_id) {
            self.numbers.push(None);
            return Ok(());
        }
        if let Some(name) = created.params.keys().find(|name| !created.distributions.contains_key(*name)) {
            return Err(format!("the parameter `{}` has no distribution", printable(name)));
        }
        let number = self.trials.len();
        let values = created.values.unwrap_or_else(|| created.value.into_iter().collect());
        let state = created.state.unwrap_or(TrialState::Running);
        let mut trial = StoredTrial {
            id: self.numbers.len() as u64,
            number,
            state,
            point: created.params.into_iter().map(|(name, value)| (name, value.0)).collect(),
            distributions: created.distributions,
            values: values.into_iter().map(|value| value.0).collect(),
            intermediate: created
                .intermediate_values
                .into_iter()
                .map(|(step, value)| (step, value.0))
                .collect(),
            user_attributes: Attributes::new(),
            system_attributes: created.system_attrs,
            started: created.datetime_start,
            ended: created.datetime_complete,
            ended_at: state.is_finished().then_some(self.records),
            lease: None,
        };
        for (key, value) in created.user_attrs {
            trial.set_user_attribute(key, value);
        }
        for (name, distribution) in &trial.distributions {
            if trial.point.contains_key(name) {
                note_use(&mut self.distributions, name, distribution, number);
            }
        }
        self.numbers.push(Some(number));
        self.trials.push(trial);
        if state != TrialState::Waiting {
            self.jobs.begin(number);
        }
        if state.is_finished() {
            self.jobs.end(number, JobOutcome::Over);
        }
        Ok(())
    }

    fn set_parameter(&mut self, of: TrialParameter) {
        let known = self.distributions.get(&of.param_name);
        if known.is_some_and(|known| !known.distribution.is_compatible(&of.distribution)) {
            return;
        }
        let Some(trial) = self.unfinished(of.trial_id) else { return };
        trial.point.insert(of.param_name.clone(), of.param_value_internal.0);
        trial.distributions.insert(of.param_name.clone(), of.distribution.clone());
        let number = trial.number;
        note_use(&mut self.distributions, &of.param_name, &of.distribution, number);
    }
}

fn is_better(direction: Direction, trial: &StoredTrial, than: &StoredTrial) -> bool {
    match (trial.value(), than.value(), direction) {
        (Some(value), Some(than), Direction::Minimize) => value < than,
        (Some(value), Some(than), Direction::Maximize) => value > than,
        _ => false,
    }
}

fn set_trial_attribute(state: &mut StudyState, of: TrialAttribute) {
    let Some(trial) = state.unfinished(of.trial_id) else { return };
    let number = trial.number;
    let (is_pause, is_decision) = (of.key == PAUSED, of.key == DECISION);
    match of.owner {
        Owner::User => trial.set_user_attribute(of.key, of.value),
        Owner::System => drop(trial.system_attributes.insert(of.key, of.value)),
    }
    if let Some(step) = trial.paused_at().filter(|_| is_pause) {
        state.jobs.end(number, JobOutcome::Paused(step));
    } else if is_decision && trial.is_promoted() {
        state.jobs.begin(number);
    }
}

fn set_state(state: &mut StudyState, of: SetTrialState) {
    let records = state.records;
    let Some(trial) = state.unfinished(of.trial_id) else { return };
    // Two workers popped the same trial: the first has it.
    if of.state == TrialState::Running && trial.state == TrialState::Running {
        return;
    }
    if of.state == TrialState::Running {
        trial.started = of.datetime_start;
    }
    if of.state.is_finished() {
        trial.ended = of.datetime_complete;
        trial.ended_at = Some(records);
    }
    trial.state = of.state;
    if let Some(values) = of.values {
        trial.values = values.into_iter().map(|Number(value)| value).collect();
    }
    let number = trial.number;
    if of.state == TrialState::Running {
        state.jobs.begin(number);
    } else if of.state.is_finished() {
        state.jobs.end(number, JobOutcome::Over);
    }
}

/// Notes the distribution of a parameter where its trial is the first that has it.
fn note_use(
    distributions: &mut BTreeMap<String, FirstUse>,
    name: &str,
    distribution: &Distribution,
    number: usize,
) {
    if distributions.get(name).is_none_or(|first| number <= first.number) {
        distributions.insert(name.to_owned(), FirstUse { number, distribution: distribution.clone() });
    }
}
