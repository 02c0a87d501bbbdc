use indicatif::ProgressBar;
use oomph_runs::{Event, Observer, Tick};

use super::{
    Style,
    bars::{BAR, bar, show},
};

/// A bar of the steps of a profile, then of its evaluation.
pub struct ProfileBar {
    /// `None` without a terminal.
    bar: Option<ProgressBar>,
    warmup: usize,
    steps: usize,
}

impl ProfileBar {
    /// Progress of a profile with so many steps, of which the first are not profiled.
    pub fn new(style: Style, warmup: usize, steps: usize) -> Self {
        let bar = (style == Style::Bars).then(|| bar(BAR));
        let progress = Self { bar, warmup, steps };
        progress.show_step(0);
        progress
    }

    fn show_step(&self, done: usize) {
        let Some(bar) = &self.bar else { return };
        match done.checked_sub(self.warmup) {
            Some(done) => show(bar, "profile", done, self.steps, String::new()),
            None => show(bar, "warm up", done, self.warmup, String::new()),
        }
    }
}

impl Observer for ProfileBar {
    fn event(&mut self, _event: &Event) {}

    fn tick(&mut self, tick: Tick) {
        match (tick, &self.bar) {
            (Tick::Step { step }, _) => self.show_step(step),
            (Tick::Eval { batch, batches }, Some(bar)) => {
                show(bar, "evaluate", batch, batches, String::new());
            }
            (Tick::Eval { .. }, None) => {}
        }
    }
}

/// Erases the bar, also after an error.
impl Drop for ProfileBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
