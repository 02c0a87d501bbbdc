use oomph_trainer::{EvalMetrics, Event, Saved, Started, StepMetrics};

use super::header::header;
use crate::{
    notices::Notices,
    numbers::{decimal, grouped, measured, percent, rate},
};

/// Progress where there is no terminal: a line an event.
#[derive(Default)]
pub(super) struct Lines {
    notices: Notices,
    steps: usize,
}

impl Lines {
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Started(started) => self.started(started),
            Event::Step(metrics) => self.step(metrics),
            Event::Eval(metrics) => self.notices.line(evaluated(metrics)),
            Event::Checkpoint(Saved { checkpoint, .. }) => {
                self.notices.line(format!("saved {}", checkpoint.display()));
            }
            Event::Warning { message } => self.notices.warning(message),
            Event::Adapted(adapted) => self.notices.warning(adapted),
            // A leak is a warning as well.
            Event::Leak(_) | Event::Done(_) | Event::Error { .. } => {}
        }
    }

    fn started(&mut self, started: &Started) {
        self.steps = started.steps;
        self.notices.line(header(started));
    }

    fn step(&self, metrics: &StepMetrics) {
        self.notices.line(format!(
            "step {}/{}  epoch {}  {}",
            grouped(metrics.step),
            grouped(self.steps),
            grouped(metrics.epoch),
            figures(metrics, "  ")
        ));
    }
}

/// Loss, accuracy, speed and memory of the last steps.
pub(super) fn figures(metrics: &StepMetrics, between: &str) -> String {
    let loss = Some(format!("loss {}", decimal(metrics.loss)));
    let accuracy = metrics.accuracy.map(|accuracy| format!("accuracy {}", percent(accuracy)));
    let speed = Some(format!("{} samples/s", rate(metrics.samples_per_second)));
    let memory = if oomph_memory::is_installed() {
        format!("in use {}{between}peak {}", metrics.in_use_bytes, metrics.peak_in_use_bytes)
    } else {
        format!("memory {}", measured(metrics.in_use_bytes))
    };
    [loss, accuracy, speed, Some(memory)].into_iter().flatten().collect::<Vec<_>>().join(between)
}

/// What an evaluation found.
pub(super) fn evaluated(metrics: &EvalMetrics) -> String {
    let accuracy = metrics.eval_accuracy.map(|accuracy| format!("  eval accuracy {}", percent(accuracy)));
    format!(
        "epoch {}  step {}  eval loss {}{}{}",
        grouped(metrics.epoch),
        grouped(metrics.step),
        decimal(metrics.eval_loss),
        accuracy.unwrap_or_default(),
        if metrics.best { "  best so far" } else { "" }
    )
}
