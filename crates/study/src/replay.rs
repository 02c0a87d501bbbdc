//! Making every decision of a study again.

use std::{collections::BTreeMap, path::Path};

use oomph_search::{Point, Trial};
use serde_json::Value;

use crate::{
    error::StudyError,
    journal::{Log, Operation, Record, typed},
    state::StudyState,
    study::{DECISION, Decision, DecisionKind, Outcome},
};

/// A decision to make again. Its answer is a function of this and of the study's seed and settings.
#[derive(Debug)]
pub struct Question<'a> {
    /// The number of the trial that was decided about. For [`DecisionKind::Promote`] and [`DecisionKind::Finish`] the answer
    /// tells it, and it is given too.
    pub number: usize,
    /// How the decision was made.
    pub decision: &'a Decision,
    /// The trials as the decision saw them: [`StudyState::view`].
    pub trials: Vec<Trial>,
    /// The values that an enqueued trial demands.
    pub fixed: BTreeMap<String, Value>,
    /// The whole study as of then.
    pub state: &'a StudyState,
}

/// What [`replay`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How many decisions were made again.
    pub checked: usize,
    /// Those that came out otherwise.
    pub differences: Vec<Difference>,
}

/// A decision that came out otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The number of the trial.
    pub number: usize,
    /// The line of the journal that has the decision, counted from 1.
    pub line: u64,
    /// How it was made.
    pub decision: Decision,
    /// What it came to in the study.
    pub recorded: Outcome,
    /// What it comes to now. `None`: the decision claims to have seen records that did not exist yet.
    pub remade: Option<Outcome>,
}

/// A decision as the journal has it.
struct Recorded {
    number: usize,
    line: u64,
    decision: Decision,
}

/// Makes every decision of a study again, in the order of what they saw, and compares. It reads the journal twice, without
/// the lock, and needs the memory of one study.
///
/// Points are compared bit by bit.
///
/// # Errors
/// The journal cannot be read, or has no such study.
pub fn replay(
    path: &Path,
    name: Option<&str>,
    mut decide: impl FnMut(&Question<'_>) -> Outcome,
) -> Result<Report, StudyError> {
    let mut end = StudyState::new(name.unwrap_or_default());
    let mut recorded = Vec::new();
    Log::new(path).read(|record| {
        note(&end, &record, &mut recorded);
        end.apply(record)
    })?;
    if !end.exists() {
        let [name, there] = [vec![end.name().to_owned()], end.studies()];
        return Err(StudyError::NoStudy { path: path.to_owned(), name: name.concat(), there });
    }
    recorded.sort_by_key(|recorded| recorded.decision.seen.records);
    let mut pending = recorded.into_iter().peekable();
    let mut report = Report::default();
    let mut state = StudyState::new(end.name());
    let mut answer = |state: &StudyState, pending: &mut std::iter::Peekable<std::vec::IntoIter<Recorded>>| {
        while let Some(next) = pending.next_if(|next| next.decision.seen.records <= state.records()) {
            check(state, &end, next, &mut decide, &mut report);
        }
    };
    answer(&state, &mut pending);
    Log::new(path).read(|record| {
        state.apply(record)?;
        answer(&state, &mut pending);
        Ok(())
    })?;
    for beyond in pending {
        check(&state, &end, beyond, &mut decide, &mut report);
    }
    Ok(report)
}

/// Notes the decision that a record holds, if it is of this study.
fn note(state: &StudyState, record: &Record, to: &mut Vec<Recorded>) {
    let line = state.records() + 1;
    let mut push = |number, value: Option<&Value>| {
        if let Some(decision) = value.and_then(typed) {
            to.push(Recorded { number, line, decision });
        }
    };
    match &record.operation {
        Operation::CreateTrial(created) if state.id() == Some(created.study_id) => {
            push(state.trials().len(), created.user_attrs.get(DECISION));
        }
        Operation::TrialAttribute(of) if of.key == DECISION => {
            if let Some(number) = state.number(of.trial_id) {
                push(number, Some(&of.value));
            }
        }
        _ => {}
    }
}

fn check(
    state: &StudyState,
    end: &StudyState,
    recorded: Recorded,
    decide: &mut impl FnMut(&Question<'_>) -> Outcome,
    report: &mut Report,
) {
    let Recorded { number, line, decision } = recorded;
    let trial = end.trials().get(number);
    let outcome = match decision.kind {
        DecisionKind::Begin => Outcome::Begin(trial.map(|trial| trial.point.clone()).unwrap_or_default()),
        DecisionKind::Promote | DecisionKind::Finish => Outcome::Promote(number),
        DecisionKind::Pause => Outcome::Pause,
        DecisionKind::Prune => Outcome::Prune,
    };
    let seen = decision.seen;
    let remade = (seen.records < line && seen.records <= state.records()).then(|| {
        decide(&Question {
            number,
            decision: &decision,
            trials: state.view(seen),
            fixed: trial.map(|trial| trial.fixed()).unwrap_or_default(),
            state,
        })
    });
    report.checked += 1;
    if remade.as_ref().is_none_or(|remade| !is_same(remade, &outcome)) {
        report.differences.push(Difference { number, line, decision, recorded: outcome, remade });
    }
}

fn is_same(one: &Outcome, other: &Outcome) -> bool {
    let bits = |point: &Point| -> Vec<(String, u64)> {
        point.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect()
    };
    match (one, other) {
        (Outcome::Begin(one), Outcome::Begin(other)) => bits(one) == bits(other),
        (one, other) => one == other,
    }
}
