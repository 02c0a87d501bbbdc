//! The data of the scripts: columns over trials.

use oomph_core::Bytes;
use serde::Serialize;

use crate::study::{Goal, PageParameter, PageTrial, ParameterKind, ParameterValue, StudyPage, TrialStatus};

/// Points of all learning curves together. Longer curves are thinned out.
const MOST_POINTS: usize = 100_000;
/// Points of a curve that are kept in any case.
const FEWEST_POINTS: usize = 20;

/// The content of the page's data element.
#[derive(Serialize)]
pub(crate) struct Data<'a> {
    name: &'a str,
    metric: &'a str,
    minimizes: bool,
    unit: &'a str,
    levels: &'a [u64],
    limit: Option<Bytes>,
    statuses: [&'static str; TrialStatus::ALL.len()],
    /// The index of the best trial.
    best: Option<usize>,
    parameters: Vec<Axis<'a>>,
    trials: Columns<'a>,
}

#[derive(Serialize)]
struct Axis<'a> {
    name: &'a str,
    kind: &'static str,
    low: f64,
    high: f64,
    log: bool,
    choices: &'a [ParameterValue],
    when: Option<&'a str>,
}

/// A column has an entry for each trial.
#[derive(Serialize)]
struct Columns<'a> {
    number: Vec<u64>,
    /// The index of the status.
    status: Vec<usize>,
    value: Vec<Option<f64>>,
    /// The steps of each learning curve, and their values.
    steps: Vec<Vec<u64>>,
    curves: Vec<Vec<f64>>,
    /// By parameter: the number on its axis.
    parameters: Vec<Vec<Option<f64>>>,
    planned: Vec<Option<Bytes>>,
    measured: Vec<Option<Bytes>>,
    seconds: Vec<Option<f64>>,
    reason: Vec<Option<&'a str>>,
    adapted: Vec<Vec<(&'a str, &'a ParameterValue)>>,
}

impl<'a> Data<'a> {
    pub(crate) fn new(page: &'a StudyPage) -> Self {
        Self {
            name: &page.name,
            metric: &page.metric,
            minimizes: page.goal == Goal::Minimize,
            unit: &page.unit,
            levels: &page.levels,
            limit: page.limit_bytes,
            statuses: TrialStatus::ALL.map(TrialStatus::name),
            best: page.best(),
            parameters: page.parameters.iter().map(axis).collect(),
            trials: columns(page),
        }
    }
}

fn axis(parameter: &PageParameter) -> Axis<'_> {
    let [low, high] = parameter.kind.bounds();
    let (kind, choices): (_, &[_]) = match &parameter.kind {
        ParameterKind::Float { .. } => ("float", &[]),
        ParameterKind::Integer { .. } => ("integer", &[]),
        ParameterKind::Choice { choices } => ("choice", choices),
    };
    let log = parameter.kind.is_log();
    Axis { name: &parameter.name, kind, low, high, log, choices, when: parameter.when.as_deref() }
}

fn columns(page: &StudyPage) -> Columns<'_> {
    let trials = &page.trials;
    let most = (MOST_POINTS / trials.len().max(1)).max(FEWEST_POINTS);
    let curves: Vec<_> = trials.iter().map(|trial| curve(trial, &page.levels, most)).collect();
    let (steps, curves) = curves.into_iter().map(|curve| curve.into_iter().unzip()).unzip();
    let numbers = |parameter: &PageParameter| {
        trials.iter().map(|trial| parameter.kind.number(trial.parameters.get(&parameter.name))).collect()
    };
    Columns {
        number: trials.iter().map(|trial| trial.number).collect(),
        status: trials.iter().map(|trial| trial.status.index()).collect(),
        value: trials.iter().map(|trial| trial.value).collect(),
        steps,
        curves,
        parameters: page.parameters.iter().map(numbers).collect(),
        planned: trials.iter().map(|trial| trial.planned_peak_bytes).collect(),
        measured: trials.iter().map(|trial| trial.measured_peak_bytes).collect(),
        seconds: trials.iter().map(|trial| trial.seconds.map(rounded)).collect(),
        reason: trials.iter().map(|trial| trial.reason.as_deref()).collect(),
        adapted: trials
            .iter()
            .map(|trial| trial.adapted.iter().map(|(key, value)| (key.as_str(), value)).collect())
            .collect(),
    }
}

/// The finite values by step. Of more than `most`, some evenly, and those at levels and at the end.
fn curve(trial: &PageTrial, levels: &[u64], most: usize) -> Vec<(u64, f64)> {
    let finite: Vec<_> = trial.steps.iter().filter(|(_, value)| value.is_finite()).collect();
    let apart = finite.len().div_ceil(most).max(1);
    let last = finite.len().saturating_sub(1);
    let kept = finite
        .iter()
        .enumerate()
        .filter(|(index, (step, _))| index % apart == 0 || *index == last || levels.contains(step));
    kept.map(|(_, (step, value))| (**step, rounded(**value))).collect()
}

/// Six significant digits, which is finer than any screen resolves.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_levels_and_its_end() {
        let mut trial = PageTrial::new(0, TrialStatus::Pruned);
        trial.steps = (1..=1_000).map(|step| (step, 1.0 / step as f64)).collect();
        trial.steps.insert(500, f64::NAN);
        let steps: Vec<_> = curve(&trial, &[7, 333], 20).into_iter().map(|(step, _)| step).collect();
        assert!(steps.len() < 25, "{steps:?}");
        assert!([1, 7, 333, 1_000].iter().all(|step| steps.contains(step)), "{steps:?}");
        assert!(steps.is_sorted() && !steps.contains(&500));
    }

    #[test]
    fn a_short_curve_is_kept_to_six_digits() {
        let mut trial = PageTrial::new(0, TrialStatus::Running);
        trial.steps = [(1, 0.123_456_789), (2, f64::INFINITY), (3, 1e-12)].into();
        assert_eq!(curve(&trial, &[], 20), [(1, 0.123_457), (3, 1e-12)]);
    }
}
