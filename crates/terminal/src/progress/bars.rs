use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use oomph_runs::{Event, Started, StepMetrics, Tick};

use super::lines::{evaluated, figures, header};
use crate::{
    echo,
    notices::Notices,
    numbers::{duration, grouped},
};

/// Progress on a terminal: bars of the epoch and the run, a line of figures, and above them a line per evaluation.
pub(super) struct Bars {
    all: MultiProgress,
    /// The bars of a training, once it started.
    run: Option<Box<RunBars>>,
    /// The bar of an evaluation without a training.
    evaluation: Option<ProgressBar>,
}

struct RunBars {
    epoch: ProgressBar,
    run: ProgressBar,
    figures: ProgressBar,
    started: Started,
    eta: Eta,
    /// Restarts with every epoch.
    epoch_eta: Eta,
    step: usize,
}

impl Bars {
    pub(super) fn new() -> Self {
        echo::hide_control_keys();
        Self { all: MultiProgress::new(), run: None, evaluation: None }
    }

    pub(super) fn notices(&self) -> Notices {
        Notices::above(&self.all)
    }

    pub(super) fn event(&mut self, event: &Event) {
        match (event, &mut self.run) {
            (Event::Started(started), run) => {
                let notices = Notices::above(&self.all);
                notices.line(header(started).trim_end());
                notices.line("");
                *run = Some(Box::new(RunBars::new(&self.all, started.clone())));
            }
            (Event::Step(metrics), Some(run)) => run.show_figures(metrics),
            (Event::Eval(metrics), run) => {
                Notices::above(&self.all).line(evaluated(metrics));
                run.iter().for_each(|run| run.show_epoch());
            }
            (Event::Warning { message }, _) => Notices::above(&self.all).warning(message),
            (Event::Adapted(adapted), _) => Notices::above(&self.all).warning(adapted),
            (Event::Fitted(fitted), _) => Notices::above(&self.all).note(fitted),
            // A leak comes with a warning.
            (
                Event::Checkpoint(_) | Event::Leak(_) | Event::Done(_) | Event::Error { .. } | Event::Step(_),
                _,
            ) => {}
        }
    }

    pub(super) fn tick(&mut self, tick: Tick) {
        match (tick, &mut self.run) {
            (Tick::Step { step }, Some(run)) => run.step(step),
            (Tick::Step { .. }, None) => {}
            (Tick::Eval { batch, batches }, Some(run)) => {
                show(&run.epoch, "evaluate", batch, batches, String::new());
            }
            (Tick::Eval { batch, batches }, None) => {
                let bar = self.evaluation.get_or_insert_with(|| self.all.add(bar(BAR)));
                show(bar, "evaluate", batch, batches, String::new());
            }
        }
    }
}

/// Erases the bars, also after an error.
impl Drop for Bars {
    fn drop(&mut self) {
        drop(self.all.clear());
        echo::restore();
    }
}

impl RunBars {
    fn new(all: &MultiProgress, started: Started) -> Self {
        let step = started.first_step;
        let bars = Self {
            epoch: all.add(bar(BAR)),
            run: all.add(bar(BAR)),
            figures: all.add(until_first_step()),
            eta: Eta::start(step),
            epoch_eta: Eta::start(step),
            step,
            started,
        };
        bars.show_run();
        bars.show_epoch();
        bars
    }

    fn show_figures(&self, metrics: &StepMetrics) {
        self.figures.disable_steady_tick();
        self.figures.set_style(bar_style(FIGURES));
        self.figures.set_message(fitting(figures(metrics, "  ")));
    }

    fn step(&mut self, step: usize) {
        if self.step.is_multiple_of(self.started.steps_per_epoch.max(1)) {
            // The first step of the epoch is done already; the next ones are timed.
            self.epoch_eta = Eta::start(step);
        }
        self.step = step;
        self.show_epoch();
        self.show_run();
    }

    fn show_epoch(&self) {
        let per_epoch = self.started.steps_per_epoch.max(1);
        let epochs = self.started.steps.div_ceil(per_epoch);
        // The end of an epoch counts to that epoch, not as the start of the next.
        let before = self.step.saturating_sub(1) / per_epoch;
        let end = ((before + 1) * per_epoch).min(self.started.steps);
        let name = format!("epoch {}/{}", grouped(before + 1), grouped(epochs));
        let (done, all) = (self.step - before * per_epoch, end - before * per_epoch);
        show(&self.epoch, &name, done, all, self.left(self.epoch_eta, end));
    }

    fn show_run(&self) {
        show(&self.run, "run", self.step, self.started.steps, self.left(self.eta, self.started.steps));
    }

    fn left(&self, eta: Eta, end: usize) -> String {
        let left = eta.left(self.step, end);
        left.map(|left| format!("{} left", duration(left.as_secs_f64()))).unwrap_or_default()
    }
}

/// The line of figures before there are any: the GPU kernels that the first step compiles.
fn until_first_step() -> ProgressBar {
    let kernels = |_: &ProgressState, text: &mut dyn Write| {
        let compiled = oomph_trainer::device::compiled_kernels();
        if compiled > 0 {
            // A terminal that went away shows no progress.
            let _ = write!(text, "compiling GPU kernels: {}", grouped(compiled as usize));
        }
    };
    let waiting =
        ProgressBar::no_length().with_style(bar_style("{kernels:.dim}").with_key("kernels", kernels));
    waiting.enable_steady_tick(Duration::from_millis(200));
    waiting
}

pub(super) const BAR: &str = "{prefix:14.bold} {wide_bar:.cyan/dim} {msg}";
const FIGURES: &str = "{msg:.dim}";

pub(super) fn bar(template: &str) -> ProgressBar {
    ProgressBar::no_length().with_style(bar_style(template))
}

pub(super) fn bar_style(template: &str) -> ProgressStyle {
    // The templates are constants that a test parses.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸─")
}

/// Updates a bar. The texts on the right have one width, so that all bars end in one column.
pub(super) fn show(bar: &ProgressBar, name: &str, position: usize, length: usize, left: String) {
    let count = format!("{}/{}", grouped(position), grouped(length));
    bar.set_prefix(name.to_owned());
    bar.set_length(length as u64);
    bar.set_position(position as u64);
    bar.set_message(format!("{count:>13}  {left:<12}"));
}

/// A text cut to the width of the terminal.
fn fitting(text: String) -> String {
    let (_, columns) = Term::stderr().size();
    text.chars().take(usize::from(columns)).collect()
}

/// Estimates the remaining time from the steps since the start. Evaluations and saves count, earlier processes do not.
#[derive(Clone, Copy, Debug)]
struct Eta {
    start: Instant,
    first: usize,
}

impl Eta {
    /// Starts after the first `first` steps.
    fn start(first: usize) -> Self {
        Self { start: Instant::now(), first }
    }

    /// The estimated time from `step` to `end`; `None` before the first step.
    fn left(&self, step: usize, end: usize) -> Option<Duration> {
        estimate(self.start.elapsed(), step.saturating_sub(self.first), end.saturating_sub(step))
    }
}

fn estimate(elapsed: Duration, done: usize, left: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.div_f64(done as f64).mul_f64(left as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_understood() {
        for template in [BAR, FIGURES] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn remaining_steps_take_as_long_as_finished_ones() {
        let seconds = Duration::from_secs;
        assert_eq!(estimate(seconds(10), 0, 100), None);
        assert_eq!(estimate(seconds(10), 5, 100), Some(seconds(200)));
        assert_eq!(estimate(seconds(10), 5, 0), Some(seconds(0)));
    }

    #[test]
    fn steps_of_an_earlier_process_do_not_count() {
        assert_eq!(Eta::start(50).left(50, 100), None);
        assert!(Eta::start(50).left(51, 100).is_some());
    }
}
