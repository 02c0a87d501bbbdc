//! Lines for whoever waits for work without steps or epochs.

use std::{fmt::Write, time::Duration};

use indicatif::{ProgressBar, ProgressState};

use super::{
    Style,
    bars::{BAR, bar, bar_style, show},
};
use crate::numbers::elapsed;

/// Shorter work shows nothing.
const LONG: Duration = Duration::from_secs(1);

/// The name of some work and how long it has taken, from a second on. It is erased when it is dropped.
pub struct WaitingLine(Option<ProgressBar>);

impl WaitingLine {
    /// A line for work that begins now: `planning`.
    pub fn new(style: Style, doing: &'static str) -> Self {
        Self((style == Style::Bars).then(|| {
            let so_far = move |state: &ProgressState, text: &mut dyn Write| {
                if let Some(line) = line(doing, state.elapsed()) {
                    // A terminal that went away shows no progress.
                    let _ = text.write_str(&line);
                }
            };
            let line =
                ProgressBar::no_length().with_style(bar_style("{doing:.dim}").with_key("doing", so_far));
            line.enable_steady_tick(Duration::from_millis(200));
            line
        }))
    }
}

fn line(doing: &str, took: Duration) -> Option<String> {
    (took >= LONG).then(|| format!("{doing}, for {} so far", elapsed(took.as_secs_f64())))
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}

/// A bar of work in parts. It is erased when it is dropped.
pub struct WorkBar {
    /// `None` without a terminal.
    bar: Option<ProgressBar>,
    name: &'static str,
}

impl WorkBar {
    /// A bar with a name of up to 14 letters.
    pub fn new(style: Style, name: &'static str) -> Self {
        Self { bar: (style == Style::Bars).then(|| bar(BAR)), name }
    }

    /// So many parts of all are done.
    pub fn show(&self, done: usize, of: usize) {
        if let Some(bar) = &self.bar {
            show(bar, self.name, done, of, String::new());
        }
    }
}

impl Drop for WorkBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_from_a_second_on() {
        let at = |millis| line("planning", Duration::from_millis(millis));
        assert_eq!(at(999), None);
        assert_eq!(at(2_500).as_deref(), Some("planning, for 2.5 s so far"));
    }

    #[test]
    fn without_a_terminal_nothing_is_drawn() {
        let bar = WorkBar::new(Style::Lines, "calibrate");
        bar.show(1, 2);
        assert!(bar.bar.is_none() && WaitingLine::new(Style::Json, "planning").0.is_none());
    }
}
