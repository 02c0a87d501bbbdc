use std::{collections::BTreeMap, fmt::Write as _};

use indicatif::{MultiProgress, ProgressBar};
use oomph_core::printable;
use oomph_tuner::{TuneEvent, TuneObserver, Unit};

use super::{
    bars::{BAR, bar, show},
    style::Style,
};
use crate::{
    echo,
    notices::Notices,
    numbers::{decimal, plural},
    stream,
    study::parameters,
};

/// Shows a running study: a bar of the study and one for each running trial, lines, or JSON.
pub struct TuneProgress {
    style: Style,
    all: MultiProgress,
    study: Option<ProgressBar>,
    trials: BTreeMap<usize, ProgressBar>,
    /// Trials of the study that this process saw end or pause, with those that it had before, of so many.
    ended: usize,
    of: usize,
    /// The best value of this process.
    best: Option<f64>,
    unit: Unit,
}

impl TuneProgress {
    /// Progress in a style.
    pub fn new(style: Style) -> Self {
        if style == Style::Bars {
            echo::hide_control_keys();
        }
        let (all, trials) = (MultiProgress::new(), BTreeMap::new());
        Self { style, all, study: None, trials, ended: 0, of: 0, best: None, unit: Unit::Epochs }
    }

    /// Writes lines beside the progress.
    pub fn notices(&self) -> Notices {
        if self.style == Style::Bars { Notices::above(&self.all) } else { Notices::default() }
    }

    /// Shows that so many points of a survey are planned.
    pub fn planned(&mut self, done: usize, of: usize) {
        if self.style == Style::Bars {
            let bar = self.study.get_or_insert_with(|| self.all.add(bar(BAR)));
            show(bar, "plan", done, of, String::new());
        }
    }

    /// Erases the bars.
    pub fn finish(self) {}

    fn line(&self, text: impl AsRef<str>) {
        if self.style.is_verbose() {
            self.notices().line(text);
        }
    }

    fn show_study(&mut self) {
        if self.style == Style::Bars {
            let bar = self.study.get_or_insert_with(|| self.all.add(bar(BAR)));
            let best = self.best.map(|best| format!("best {}", decimal(best))).unwrap_or_default();
            show(bar, "study", self.ended.min(self.of), self.of, best);
        }
    }

    fn trial_ends(&mut self, trial: usize, is_over: bool) {
        if let Some(bar) = self.trials.remove(&trial) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        self.ended += usize::from(is_over);
        self.show_study();
    }

    fn json(&self, event: &TuneEvent) {
        // Too frequent for a log. A reader that is gone ends nothing: the study is on disk.
        if !matches!(event, TuneEvent::Progress { .. }) {
            drop(stream::print_json(event));
        }
    }
}

impl TuneObserver for TuneProgress {
    fn event(&mut self, event: &TuneEvent) {
        match self.style {
            Style::Json => return self.json(event),
            Style::QuietJson if matches!(event, TuneEvent::Warning { .. }) => return self.json(event),
            Style::QuietJson => return,
            Style::Quiet | Style::Bars | Style::Lines => {}
        }
        if let Some(text) = described(event, self.unit) {
            match event {
                TuneEvent::Warning { message } => self.notices().warning(message),
                _ => self.line(text),
            }
        }
        match event {
            // No line before this one has a length.
            TuneEvent::Opened { trials, of, unit, .. } => {
                (self.ended, self.of, self.unit) = (*trials, *of, *unit);
                self.show_study();
            }
            TuneEvent::Progress { trial, step, steps } if self.style == Style::Bars => {
                let bar = self.trials.entry(*trial).or_insert_with(|| self.all.add(bar(BAR)));
                show(bar, &format!("trial {trial}"), *step, *steps, String::new());
            }
            TuneEvent::Complete { trial, value, best } => {
                if *best {
                    self.best = Some(*value);
                }
                self.trial_ends(*trial, true);
            }
            TuneEvent::Pruned { trial }
            | TuneEvent::Failed { trial, .. }
            | TuneEvent::TooLarge { trial, .. }
            | TuneEvent::Paused { trial, .. } => self.trial_ends(*trial, true),
            TuneEvent::Released { trial } => self.trial_ends(*trial, false),
            _ => {}
        }
    }
}

/// The line of an event.
fn described(event: &TuneEvent, unit: Unit) -> Option<String> {
    let length = |count: u64| plural(count as usize, if unit == Unit::Epochs { "epoch" } else { "step" });
    Some(match event {
        TuneEvent::Opened { study, trials, of, parallel, metric, .. } => format!(
            "study {}: {metric}, {trials} of {}, {parallel} at the same time",
            printable(study),
            plural(*of, "trial"),
        ),
        TuneEvent::Trains {
            trial, parameters: point, attempt, until, planned_peak_bytes, adapted, ..
        } => {
            let what = if *attempt == 1 { "begins" } else { "continues" };
            let mut text = format!("trial {trial} {what}, up to {}: {}", length(*until), parameters(point));
            let _ = write!(text, "; planned peak {planned_peak_bytes}"); // Writing to a string cannot fail.
            if !adapted.is_empty() {
                let _ = write!(text, "; adapted to fit: {}", parameters(adapted));
            }
            text
        }
        TuneEvent::Paused { trial, at, value } => {
            format!("trial {trial} pauses after {}: {}", length(*at), decimal(*value))
        }
        TuneEvent::Complete { trial, value, best } => {
            let best = if *best { ", the best so far" } else { "" };
            format!("trial {trial} is complete: {}{best}", decimal(*value))
        }
        TuneEvent::Pruned { trial } => format!("trial {trial} is pruned"),
        TuneEvent::Failed { trial, reason } => format!("trial {trial} failed: {}", printable(reason)),
        TuneEvent::TooLarge { trial, reason } => format!("trial {trial} is too large: {}", printable(reason)),
        TuneEvent::Adapted { trial, settings } => {
            format!("trial {trial} ran out of memory, and is tried again with {}", parameters(settings))
        }
        TuneEvent::Released { trial } => format!("trial {trial} is saved, to be continued"),
        TuneEvent::Waits { trials, seconds } => {
            let numbers: Vec<_> = trials.iter().map(usize::to_string).collect();
            let trials = if trials.len() == 1 { "trial" } else { "trials" };
            format!(
                "waiting for {trials} {} of another process; if it gives no sign of life, this one goes on in {seconds} s",
                numbers.join(", ")
            )
        }
        TuneEvent::Warning { message } => printable(message),
        TuneEvent::Progress { .. } | TuneEvent::Value { .. } => return None,
    })
}

/// Erases the bars, also after an error.
impl Drop for TuneProgress {
    fn drop(&mut self) {
        if self.style == Style::Bars {
            drop(self.all.clear());
            echo::restore();
        }
    }
}
