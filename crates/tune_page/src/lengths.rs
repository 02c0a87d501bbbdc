//! How many trials reached each length at which trials are compared.

use std::io::{self, Write};

use oomph_timeline::export::figures::{number, percent};

use crate::study::{PageTrial, StudyPage, TrialStatus};

/// The trials at a length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Length {
    pub(crate) level: u64,
    /// Trials that were trained so far.
    pub(crate) reached: usize,
    /// Trials that were trained further.
    pub(crate) continued: usize,
    /// Trials that stand here, paused.
    pub(crate) paused: usize,
    /// Trials that were given up here, or between here and the next length.
    pub(crate) pruned: usize,
    /// The best value after this many steps.
    pub(crate) best: Option<f64>,
}

/// The lengths of a study, from the shortest.
pub(crate) fn lengths(page: &StudyPage) -> Vec<Length> {
    let next = page.levels.iter().skip(1).map(|level| Some(*level)).chain([None]);
    page.levels.iter().zip(next).map(|(level, next)| length(page, *level, next)).collect()
}

fn length(page: &StudyPage, level: u64, next: Option<u64>) -> Length {
    let reached: Vec<_> = page.trials.iter().filter(|trial| trial.has_reached(level)).collect();
    let has_continued = |trial: &PageTrial| {
        next.is_some()
            && match trial.last_step() {
                Some(last) => last > level,
                None => trial.status == TrialStatus::Complete,
            }
    };
    let stands = |trial: &&&PageTrial| next.is_none_or(|next| !trial.has_reached(next));
    let count = |status| reached.iter().filter(stands).filter(|trial| trial.status == status).count();
    let values = reached.iter().filter_map(|trial| trial.value_at(level));
    Length {
        level,
        reached: reached.len(),
        continued: reached.iter().filter(|trial| has_continued(trial)).count(),
        paused: count(TrialStatus::Paused),
        pruned: count(TrialStatus::Pruned),
        best: values.min_by(|a, b| page.goal.loss(*a).total_cmp(&page.goal.loss(*b))),
    }
}

/// The rows of the table.
pub(crate) fn rows(page: &StudyPage, out: &mut dyn Write) -> io::Result<()> {
    let lengths = lengths(page);
    let most = lengths.iter().map(|length| length.reached).max().unwrap_or(0).max(1);
    for (index, length) in lengths.iter().enumerate() {
        let Length { level, reached, continued, paused, pruned, best } = *length;
        write!(out, "<tr><th scope=\"row\">{level}</th><td class=\"number\">{reached}</td>")?;
        let [wide, dark] = [reached, continued].map(|count| count as f64 / most as f64 * 100.0);
        write!(
            out,
            "<td class=\"share\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
        )?;
        write!(out, "<rect class=\"reached\" width=\"{wide:.2}\" height=\"10\"/>")?;
        write!(out, "<rect class=\"continued\" width=\"{dark:.2}\" height=\"10\"/></svg></td>")?;
        let is_last = index + 1 == lengths.len();
        let share = match (is_last, reached) {
            (true, _) => "<td class=\"number\">–</td>".to_owned(),
            (false, 0) => "<td class=\"number\">0</td>".to_owned(),
            (false, _) => {
                let share = percent(continued as f64 / reached as f64);
                format!("<td class=\"number\">{continued} <small>{share}</small></td>")
            }
        };
        let best = best.map_or_else(|| "–".into(), number);
        writeln!(
            out,
            "{share}<td class=\"number\">{paused}</td><td class=\"number\">{pruned}</td><td class=\"number\">{best}</td></tr>"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Goal;

    #[test]
    fn trials_are_counted_where_they_stand() {
        let trial = |status, steps: &[(u64, f64)]| PageTrial {
            steps: steps.iter().copied().collect(),
            ..PageTrial::new(0, status)
        };
        let page = StudyPage {
            name: String::new(),
            metric: String::new(),
            goal: Goal::Maximize,
            unit: "epochs".into(),
            levels: vec![1, 3, 9],
            parameters: vec![],
            trials: vec![
                trial(TrialStatus::Complete, &[(1, 0.1), (3, 0.4), (9, 0.8)]),
                trial(TrialStatus::Complete, &[]),
                trial(TrialStatus::Pruned, &[(1, 0.2), (3, 0.3)]),
                trial(TrialStatus::Paused, &[(1, 0.5)]),
                trial(TrialStatus::Running, &[(1, 0.6), (2, 0.7)]),
                trial(TrialStatus::Failed, &[]),
            ],
            limit_bytes: None,
            made: String::new(),
        };
        let row = |level, [reached, continued, paused, pruned]: [usize; 4], best| Length {
            level,
            reached,
            continued,
            paused,
            pruned,
            best: Some(best),
        };
        let expected = [row(1, [5, 4, 1, 0], 0.6), row(3, [3, 2, 0, 1], 0.4), row(9, [2, 0, 0, 0], 0.8)];
        assert_eq!(lengths(&page), expected);
    }
}
