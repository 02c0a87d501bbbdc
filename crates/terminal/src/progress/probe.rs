use indicatif::{MultiProgress, ProgressBar};
use oomph_core::printable;

use super::{Style, bars::bar_style};
use crate::{echo, notices::Notices};

/// A bar of the steps of the current child process, if stderr is a terminal.
pub struct ProbeBar {
    bar: Option<ProgressBar>,
    /// The number of processes, if known.
    processes: Option<usize>,
    notices: Notices,
}

impl ProbeBar {
    /// Progress of trainings in other processes, as many as are known.
    pub fn new(style: Style, processes: Option<usize>) -> Self {
        let all = MultiProgress::new();
        let draws = style == Style::Bars;
        let bar = draws.then(|| {
            echo::hide_control_keys();
            all.add(ProgressBar::new(0).with_style(bar_style(BAR)))
        });
        let notices = if draws { Notices::above(&all) } else { Notices::default() };
        Self { bar, processes, notices }
    }

    /// Writes lines above the bar.
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Starts the bar of the process after `done` others, with `steps` steps.
    pub fn start(&self, label: &str, done: usize, steps: usize) {
        let Some(bar) = &self.bar else { return };
        bar.set_length(steps as u64);
        bar.set_position(0);
        let of = self.processes.map(|processes| format!("/{processes}")).unwrap_or_default();
        bar.set_prefix(format!("{}{of}", done + 1));
        bar.set_message(printable(label));
    }

    /// Shows that the training is in this step.
    pub fn step(&self, step: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position((step as u64).min(bar.length().unwrap_or(u64::MAX)));
        }
    }
}

/// Erases the bar, also after an error.
impl Drop for ProbeBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            echo::restore();
        }
    }
}

const BAR: &str = "{prefix:7.bold} {wide_bar:.cyan/dim} {pos:>5}/{len} steps  {msg}";

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    use super::*;

    #[test]
    fn the_template_is_understood() {
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
