//! The importance of parameters, by the functional ANOVA of the crate `fanova`.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
};

use fanova::{FanovaOptions, RandomForestOptions};
use oomph_timeline::export::{
    document::Text,
    figures::{counted, percent},
};

use crate::study::{PageParameter, PageTrial, StudyPage, TrialStatus};

/// Fewer trials say nothing.
const FEWEST_TRIALS: usize = 20;
/// The time of a tree grows with the square of its trials.
const MOST_TRIALS: usize = 500;
const TREES: u64 = 64;
/// Values this many quartile distances beyond the worse quartile count as if they were there.
const FENCE: f64 = 3.0;
/// Of the range of a parameter. The library compares numbers by their absolute distance.
const GRID: f64 = 1e6;

/// The importance of each parameter for the value at one length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Importance {
    /// The level; `None` for the final value.
    level: Option<u64>,
    /// The trials that have a value there.
    trials: usize,
    /// The trials that were used.
    used: usize,
    /// The values that were moved to the fence.
    fenced: usize,
    /// By parameter, in the order of the page.
    shares: Vec<Share>,
}

/// The share of the variance that a parameter explains by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    mean: f64,
    /// Over the trees.
    deviation: f64,
    /// The trials that did not have the parameter.
    imputed: usize,
}

/// What the importance is computed from: trials with their values.
struct Sample<'a> {
    trials: Vec<&'a PageTrial>,
    values: Vec<f64>,
}

/// The importance for the final value, then for that at each length, from the longest: those with enough trials.
pub(crate) fn importances(page: &StudyPage) -> Vec<Importance> {
    if page.parameters.is_empty() {
        return Vec::new();
    }
    let complete = sample(page, |trial| trial.value.filter(|_| trial.status == TrialStatus::Complete));
    let count = complete.values.len();
    let levels =
        page.levels.iter().rev().map(|level| (Some(*level), sample(page, |trial| trial.value_at(*level))));
    // Complete trials alone reach the full length, whose value is their final one.
    let is_new = |level: Option<u64>, sample: &Sample<'_>| {
        level.is_none() || level != page.levels.last().copied() || sample.values.len() != count
    };
    let bases = [(None, complete)].into_iter().chain(levels).filter(|(level, sample)| is_new(*level, sample));
    let enough = bases.filter(|(_, sample)| sample.values.len() >= FEWEST_TRIALS);
    enough.filter_map(|(level, sample)| importance(page, level, &sample)).collect()
}

fn sample(page: &StudyPage, value: impl Fn(&PageTrial) -> Option<f64>) -> Sample<'_> {
    let known =
        page.trials.iter().filter_map(|trial| Some((trial, value(trial).filter(|value| value.is_finite())?)));
    let (trials, values) = known.unzip();
    Sample { trials, values }
}

/// `None` if all values are equal.
fn importance(page: &StudyPage, level: Option<u64>, sample: &Sample<'_>) -> Option<Importance> {
    let trials = sample.values.len();
    // Evenly over the study: an adaptive sampler makes late trials like each other.
    let used = trials.min(MOST_TRIALS);
    let rows: Vec<usize> = (0..used).map(|row| row * trials / used.max(1)).collect();
    let chosen: Vec<f64> = rows.iter().filter_map(|row| sample.values.get(*row).copied()).collect();
    let (target, fenced) = fence(page, chosen);
    let mut columns = Vec::new();
    let mut imputed = Vec::new();
    for parameter in &page.parameters {
        let of_trial = |row: &usize| place(parameter, sample.trials.get(*row)?);
        let places: Vec<Option<f64>> = rows.iter().map(of_trial).collect();
        imputed.push(places.iter().filter(|place| place.is_none()).count());
        columns.push(without_gaps(&places));
    }
    let shares = shares(&columns, &target)?;
    let shares = shares.into_iter().zip(imputed).map(|([mean, deviation], imputed)| Share {
        mean,
        deviation,
        imputed,
    });
    Some(Importance { level, trials, used, fenced, shares: shares.collect() })
}

/// Moves values that are far worse than the rest: one diverged training would be all the variance.
fn fence(page: &StudyPage, values: Vec<f64>) -> (Vec<f64>, usize) {
    let mut losses: Vec<f64> = values.into_iter().map(|value| page.goal.loss(value)).collect();
    let mut sorted = losses.clone();
    sorted.sort_by(f64::total_cmp);
    let quantile =
        |share: f64| sorted.get(((sorted.len().saturating_sub(1)) as f64 * share) as usize).copied();
    let (Some(low), Some(high)) = (quantile(0.25), quantile(0.75)) else { return (losses, 0) };
    let worst = high + FENCE * (high - low);
    let mut fenced = 0;
    for loss in losses.iter_mut().filter(|loss| **loss > worst) {
        *loss = worst;
        fenced += 1;
    }
    (losses, fenced)
}

/// The place of a trial on the axis of a parameter: from 0 to 1, on a grid.
fn place(parameter: &PageParameter, trial: &PageTrial) -> Option<f64> {
    let kind = &parameter.kind;
    let scale = |number: f64| if kind.is_log() { number.max(f64::MIN_POSITIVE).ln() } else { number };
    let [low, high] = kind.bounds().map(scale);
    let number = scale(kind.number(trial.parameters.get(&parameter.name))?);
    let place = if high > low { ((number - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
    Some((place * GRID).round() / GRID)
}

/// A trial without the parameter gets the median of the others.
fn without_gaps(places: &[Option<f64>]) -> Vec<f64> {
    let mut known: Vec<f64> = places.iter().copied().flatten().collect();
    known.sort_by(f64::total_cmp);
    let median = known.get(known.len() / 2).copied().unwrap_or(0.0);
    places.iter().map(|place| place.unwrap_or(median)).collect()
}

/// Mean and deviation over the trees, by column. A tree whose trials have equal values explains nothing and is left out.
fn shares(columns: &[Vec<f64>], target: &[f64]) -> Option<Vec<[f64; 2]>> {
    let is_varied = |values: &[f64]| values.iter().any(|value| values.first() != Some(value));
    if !is_varied(target) {
        return None;
    }
    // The library divides by the width of each column.
    let varied: Vec<usize> =
        (0..columns.len()).filter(|index| columns.get(*index).is_some_and(|it| is_varied(it))).collect();
    let features: Vec<&[f64]> =
        varied.iter().filter_map(|index| columns.get(*index).map(Vec::as_slice)).collect();
    let mut found = vec![[0.0; 2]; columns.len()];
    if features.is_empty() {
        return Some(found);
    }
    let all = NonZeroUsize::new(features.len())?;
    let mut by_tree: Vec<Vec<f64>> = Vec::new();
    for seed in 0..TREES {
        let forest = RandomForestOptions::new().seed(seed).trees(NonZeroUsize::MIN).max_features(all);
        let mut tree = FanovaOptions::new().random_forest(forest).fit(features.clone(), target).ok()?;
        let shares: Vec<f64> =
            (0..features.len()).map(|feature| tree.quantify_importance(&[feature]).mean).collect();
        if shares.iter().all(|share| share.is_finite()) {
            by_tree.push(shares);
        }
    }
    let count = by_tree.len().max(1) as f64;
    for (feature, column) in varied.into_iter().enumerate() {
        let values = || by_tree.iter().filter_map(|shares| shares.get(feature));
        let mean = values().sum::<f64>() / count;
        let variance = values().map(|share| (share - mean).powi(2)).sum::<f64>() / count;
        if let Some(share) = found.get_mut(column) {
            *share = [mean, variance.sqrt()];
        }
    }
    Some(found)
}

/// The section's content: for each length the bars, of which the first is shown.
pub(crate) fn section(page: &StudyPage, out: &mut dyn Write) -> io::Result<()> {
    let found = importances(page);
    if found.is_empty() {
        let known =
            page.trials.iter().filter(|trial| trial.value.is_some() || !trial.steps.is_empty()).count();
        let says = match (page.parameters.is_empty(), known < FEWEST_TRIALS) {
            (true, _) => "The study has no parameters.".to_owned(),
            (false, true) => {
                let known = counted(known, "trial has one", "trials have one");
                format!(
                    "Importance needs {FEWEST_TRIALS} trials with a value at the same length; {known} so far."
                )
            }
            (false, false) => format!("No {FEWEST_TRIALS} trials have different values at the same length."),
        };
        return writeln!(out, "<p class=\"empty\">{says}</p>");
    }
    if found.len() > 1 {
        writeln!(
            out,
            "<div class=\"choice\" id=\"basis\" role=\"group\" aria-label=\"for the value at which length\">"
        )?;
        for (index, importance) in found.iter().enumerate() {
            let (pressed, name) = (index == 0, importance.name(page));
            writeln!(
                out,
                "<button type=\"button\" data-value=\"{index}\" aria-pressed=\"{pressed}\">{}</button>",
                Text(&name)
            )?;
        }
        writeln!(out, "</div>")?;
    }
    found.iter().enumerate().try_for_each(|(index, importance)| importance.write(page, index, out))
}

impl Importance {
    /// `at the end` or `after 3 epochs`.
    fn name(&self, page: &StudyPage) -> String {
        match self.level {
            None => "at the end".into(),
            Some(1) => format!("after 1 {}", page.unit.strip_suffix('s').unwrap_or(&page.unit)),
            Some(level) => format!("after {level} {}", page.unit),
        }
    }

    fn write(&self, page: &StudyPage, index: usize, out: &mut dyn Write) -> io::Result<()> {
        let hidden = if index == 0 { "" } else { " hidden" };
        writeln!(
            out,
            "<div class=\"basis\" data-basis=\"{index}\"{hidden}><div class=\"bars thin importance\">"
        )?;
        let mut rows: Vec<_> = page.parameters.iter().zip(&self.shares).collect();
        rows.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        let widest = rows.iter().map(|(_, share)| share.mean + share.deviation).fold(0.05, f64::max).min(1.0);
        for (parameter, share) in &rows {
            bar(&parameter.name, share, widest, out)?;
        }
        let alone: f64 = self.shares.iter().map(|share| share.mean).sum();
        writeln!(out, "</div><p class=\"hint\">{}</p></div>", Text(&self.note(page, 1.0 - alone)))
    }

    fn note(&self, page: &StudyPage, rest: f64) -> String {
        let mut note = format!(
            "Share of the variance of {} {} that each parameter explains alone, by functional ANOVA over {}. ",
            page.metric,
            self.name(page),
            counted(self.trials, "trial", "trials"),
        );
        if self.used < self.trials {
            note += &format!("{} of them were used, evenly over the study. ", self.used);
        }
        note += &format!(
            "± is the deviation over {TREES} regression trees. Interactions explain the other {}. ",
            percent(rest.max(0.0))
        );
        if self.fenced > 0 {
            let far = counted(self.fenced, "value that is", "values that are");
            note += &format!("{far} far worse than the rest count as the worst of the rest. ");
        }
        let partial = self.shares.iter().filter(|share| share.imputed > 0).count();
        if partial > 0 {
            let many = counted(partial, "parameter is", "parameters are");
            note += &format!("{many} not set in every trial (*): a trial without one counts as its median. ");
        }
        note.trim_end().to_owned()
    }
}

fn bar(name: &str, share: &Share, widest: f64, out: &mut dyn Write) -> io::Result<()> {
    let star = if share.imputed > 0 { " *" } else { "" };
    let x = |share: f64| (share / widest * 1000.0).clamp(0.0, 1000.0);
    let [wide, low, high] = [share.mean, share.mean - share.deviation, share.mean + share.deviation].map(x);
    writeln!(out, "<div class=\"name\">{}{star}</div>", Text(name))?;
    write!(out, "<svg viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" aria-hidden=\"true\">")?;
    write!(out, "<rect class=\"plain\" width=\"{wide:.1}\" height=\"14\"/>")?;
    write!(
        out,
        "<rect class=\"spread\" x=\"{low:.1}\" y=\"6\" width=\"{:.1}\" height=\"2\"/></svg>",
        high - low
    )?;
    let text = format!("{} <small>± {}</small>", percent(share.mean), percent(share.deviation));
    writeln!(out, "<div class=\"value\">{text}</div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Goal, ParameterKind};

    /// Trials whose value is `value` of three places from 0 to 1.
    fn study(count: u64, value: impl Fn([f64; 3]) -> f64) -> StudyPage {
        let parameter = |name: &str| PageParameter {
            name: name.into(),
            kind: ParameterKind::Float { low: 0.0, high: 1.0, log: false },
            when: None,
        };
        // Weyl sequences: evenly spread, without a generator.
        let places =
            |number: u64| [0.618_034, 0.754_878, 0.569_840].map(|step| (number as f64 * step).fract());
        let trial = |number: u64| {
            let [a, b, c] = places(number);
            PageTrial {
                parameters: [("a".into(), a.into()), ("b".into(), b.into()), ("c".into(), c.into())].into(),
                value: Some(value([a, b, c])),
                ..PageTrial::new(number, TrialStatus::Complete)
            }
        };
        StudyPage {
            name: "s".into(),
            metric: "loss".into(),
            goal: Goal::Minimize,
            unit: "epochs".into(),
            levels: vec![],
            parameters: ["a", "b", "c"].map(parameter).into(),
            trials: (0..count).map(trial).collect(),
            limit_bytes: None,
            made: String::new(),
        }
    }

    fn means(page: &StudyPage) -> Vec<f64> {
        importances(page)[0].shares.iter().map(|share| share.mean).collect()
    }

    #[test]
    fn a_linear_function_has_the_shares_of_its_squared_weights() {
        // Variances 9 : 1 : 0.
        let found = means(&study(300, |[a, b, _]| 3.0 * a + b));
        let expected = [0.9, 0.1, 0.0];
        for (share, expected) in found.iter().zip(expected) {
            assert!((share - expected).abs() < 0.04, "{found:?}");
        }
    }

    #[test]
    fn an_interaction_belongs_to_no_parameter_alone() {
        let found = means(&study(400, |[a, b, _]| (a - 0.5) * (b - 0.5)));
        assert!(found.iter().sum::<f64>() < 0.35, "{found:?}");
    }

    #[test]
    fn the_same_trials_have_the_same_importance() {
        let page = study(60, |[a, b, c]| a + b * c);
        assert_eq!(importances(&page), importances(&page));
    }

    #[test]
    fn a_diverged_trial_is_not_all_the_variance() {
        let mut page = study(100, |[a, _, _]| a);
        page.trials[7].value = Some(1e12);
        assert!(means(&page)[0] > 0.8, "{:?}", means(&page));
        assert_eq!(importances(&page)[0].fenced, 1);
    }

    #[test]
    fn too_few_trials_equal_values_and_fixed_parameters_have_no_importance() {
        assert_eq!(importances(&study(19, |[a, _, _]| a)), []);
        assert_eq!(importances(&study(20, |[a, _, _]| a)).len(), 1);
        assert_eq!(importances(&study(50, |_| 1.0)), []);
        let mut page = study(50, |[a, _, _]| a);
        page.trials.iter_mut().for_each(|trial| _ = trial.parameters.insert("b".into(), 0.5.into()));
        assert_eq!(means(&page)[1], 0.0);
    }

    #[test]
    fn a_trial_that_differs_alone_is_no_reason_for_nan() {
        let mut page = study(20, |_| 1.0);
        page.trials[3].value = Some(0.5);
        assert!(means(&page).iter().all(|mean| mean.is_finite()));
    }

    #[test]
    fn a_conditional_parameter_is_imputed_and_marked() {
        let mut page = study(60, |[a, b, _]| a + b);
        page.trials.iter_mut().step_by(2).for_each(|trial| _ = trial.parameters.remove("b"));
        let mut out = Vec::new();
        section(&page, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(">b *</div>") && text.contains("1 parameter is not set in every trial"),
            "{text}"
        );
    }

    #[test]
    fn lengths_with_enough_trials_have_an_importance_too() {
        let mut page = study(40, |[a, _, _]| a);
        page.levels = vec![1, 3, 9];
        for (number, trial) in (0..).zip(&mut page.trials) {
            trial.steps = [(1, 0.5 + trial.value.unwrap())].into();
            match number < 25 {
                true => _ = trial.steps.insert(3, trial.value.unwrap()),
                false => (trial.status, trial.value) = (TrialStatus::Pruned, None),
            }
        }
        let levels: Vec<_> = importances(&page).iter().map(|it| (it.level, it.trials)).collect();
        assert_eq!(levels, [(None, 25), (Some(3), 25), (Some(1), 40)]);
    }
}
