use oomph_runs::{EvalMetrics, Event, Saved, Started, StepMetrics};

use super::header::header;
use crate::{
    notices::Notices,
    numbers::{decimal, grouped, measured, percent, plural, power_of_two, rate},
};

/// Progress without a terminal: one line per event.
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
            // A leak comes with a warning.
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

/// Loss, accuracy, loss scale, speed and memory of the last steps.
pub(super) fn figures(metrics: &StepMetrics, between: &str) -> String {
    let loss = Some(format!("loss {}", decimal(metrics.loss)));
    let accuracy = metrics.accuracy.map(|accuracy| format!("accuracy {}", percent(accuracy)));
    let scale = metrics.loss_scale.map(|scale| format!("loss scale {}", power_of_two(scale)));
    let skipped = metrics.skipped_steps.filter(|skipped| *skipped > 0);
    let skipped = skipped.map(|skipped| format!("{} skipped", plural(skipped, "step")));
    let speed = Some(format!("{} samples/s", rate(metrics.samples_per_second)));
    let memory = if oomph_memory::is_installed() {
        format!("in use {}{between}peak {}", metrics.in_use_bytes, metrics.peak_in_use_bytes)
    } else {
        format!("memory {}", measured(metrics.in_use_bytes))
    };
    [loss, accuracy, scale, skipped, speed, Some(memory)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(between)
}

/// The result of an evaluation in one line.
pub(super) fn evaluated(metrics: &EvalMetrics) -> String {
    let accuracy = metrics.eval_accuracy.map(|accuracy| format!("  eval accuracy {}", percent(accuracy)));
    let perplexity = metrics.eval_perplexity.map(|value| format!("  eval perplexity {}", decimal(value)));
    format!(
        "epoch {}  step {}  eval loss {}{}{}{}",
        grouped(metrics.epoch),
        grouped(metrics.step),
        decimal(metrics.eval_loss),
        perplexity.unwrap_or_default(),
        accuracy.unwrap_or_default(),
        if metrics.best { "  best so far" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;

    use super::*;

    fn metrics(loss_scale: Option<f32>, skipped_steps: Option<usize>) -> StepMetrics {
        StepMetrics {
            step: 10,
            epoch: 1,
            loss: 0.5,
            accuracy: None,
            lr: 0.1,
            loss_scale,
            skipped_steps,
            samples_per_second: 200.0,
            in_use_bytes: Bytes::new(1),
            peak_in_use_bytes: Bytes::new(1),
            step_peak_bytes: None,
            reserved_bytes: None,
            pages_peak_bytes: None,
            seconds: 1.0,
        }
    }

    #[test]
    fn a_loss_scale_is_shown_if_there_is_one() {
        let check = |metrics: StepMetrics, begins: &str| {
            let text = figures(&metrics, ", ");
            assert!(text.starts_with(begins), "{text}");
        };
        check(metrics(None, None), "loss 0.5000, 200 samples/s");
        check(metrics(Some(65_536.0), Some(0)), "loss 0.5000, loss scale 65,536, 200 samples/s");
        check(
            metrics(Some(32_768.0), Some(1)),
            "loss 0.5000, loss scale 32,768, 1 step skipped, 200 samples/s",
        );
    }
}
