use std::time::{SystemTime, UNIX_EPOCH};

use oomph_core::printable;
use oomph_runs::{EvalMetrics, EvalScores, Event, Saved, Started, StepMetrics, Throughput, Tick};

use super::sign_of_life::SignOfLife;
use crate::{
    notices::Notices,
    numbers::{date, decimal, elapsed, grouped, measured, percent, plural, power_of_two, speed, step_time},
    table::pairs,
};

/// Progress without a terminal: one line per event, and signs of life between them.
pub(super) struct Lines {
    steps: usize,
    /// Steps done.
    done: usize,
    life: SignOfLife,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { steps: 0, done: 0, life: SignOfLife::start() }
    }

    /// Notes what comes next.
    pub(super) fn tick(&mut self, tick: Tick) {
        match tick {
            Tick::Step { step } => {
                self.done = step;
                self.next_step();
            }
            Tick::Eval { batch, batches } => {
                let next = (batch < batches).then_some(batch + 1);
                let next =
                    next.map(|next| format!("evaluating, batch {}/{}", grouped(next), grouped(batches)));
                self.life.doing(next);
            }
        }
    }

    fn next_step(&self) {
        let next = (self.done < self.steps).then_some(self.done + 1);
        self.life.doing(next.map(|next| format!("step {}/{}", grouped(next), grouped(self.steps))));
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.life.line();
        match event {
            Event::Started(started) => {
                (self.steps, self.done) = (started.steps, started.first_step);
                Notices::default().line(header(started));
                self.next_step();
            }
            Event::Step(metrics) => Notices::default().line(format!(
                "step {}/{}  epoch {}  {}",
                grouped(metrics.step),
                grouped(self.steps),
                grouped(metrics.epoch),
                figures(metrics, "  ")
            )),
            Event::Eval(metrics) => {
                Notices::default().line(evaluated(metrics));
                self.next_step();
            }
            Event::Checkpoint(Saved { checkpoint, .. }) => {
                Notices::default().line(format!("saved {}", printable(checkpoint.display())));
            }
            Event::Warning { message } => Notices::default().warning(message),
            Event::Adapted(adapted) => Notices::default().warning(adapted),
            Event::Fitted(fitted) => Notices::default().note(fitted),
            Event::Done(_) | Event::Error { .. } => self.life.doing(None),
            // A leak comes with a warning.
            Event::Leak(_) => {}
        }
    }
}

/// The lines at the start of a training.
pub(super) fn header(started: &Started) -> String {
    let Started { model, source, sample, batch, micro_batch, world_size, steps, steps_per_epoch, .. } =
        started;
    let replicas = if *world_size > 1 { format!(" over {world_size} replicas") } else { String::new() };
    let device = match started.strategy {
        Some(strategy) => format!("{} ({strategy})", started.device),
        None => started.device.clone(),
    };
    let micro_batches = (*micro_batch < batch.div_ceil(*world_size))
        .then(|| format!(" in micro-batches of {}", grouped(*micro_batch)));
    let tokens = started.batch_tokens.map(|tokens| format!(" ({} tokens)", grouped(tokens)));
    let samples = format!("{}{}", grouped(*batch), tokens.unwrap_or_default());
    let epochs = steps.div_ceil((*steps_per_epoch).max(1));
    let resumed = started
        .resumed_from
        .as_ref()
        .map(|path| format!("{}, after {}", path.display(), plural(started.first_step, "step")));
    let frozen = (started.frozen_parameters > 0)
        .then(|| format!("{} more parameters, not trained", grouped(started.frozen_parameters)));
    let limit = started.limit_bytes.map(|limit| format!(", limit {limit}")).unwrap_or_default();
    let weights = started.weights.as_ref().map(|path| path.display().to_string());
    pairs([
        ("model", Some(format!("{model}, {} parameters", grouped(started.parameters)))),
        ("frozen", frozen),
        ("weights", weights),
        (
            "data",
            Some(format!(
                "{source}, {} to train on, {} held out ({sample})",
                grouped(started.train_samples),
                grouped(started.test_samples)
            )),
        ),
        ("batch", Some(format!("{}{replicas}{}", samples, micro_batches.unwrap_or_default()))),
        ("length", Some(format!("{} in {}", plural(*steps, "step"), plural(epochs, "epoch")))),
        ("device", Some(device.clone())),
        ("precision", Some(started.policy.clone())),
        ("memory", Some(format!("planned peak {}{limit}", started.planned_peak_bytes))),
        ("time", planned_time(started)),
        ("run", Some(started.run_dir.display().to_string())),
        ("resumed", resumed),
    ])
}

/// `planned 3:20, 41 ms a step; done at 2026-11-27 14:32 UTC`.
fn planned_time(started: &Started) -> Option<String> {
    let (step, all) = started.planned_step_seconds.zip(started.planned_seconds)?;
    let done = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64() + all;
    let done = date(done as u64);
    Some(format!("planned {}, {} a step; done at {done} UTC", elapsed(all), step_time(step)))
}

/// Loss, accuracy, gradient norm, loss scale, speed and memory of the last steps.
pub(super) fn figures(metrics: &StepMetrics, between: &str) -> String {
    let loss = Some(format!("loss {}", decimal(metrics.loss)));
    let accuracy = metrics.accuracy.map(|accuracy| format!("accuracy {}", percent(accuracy)));
    let norm = metrics.norms.map(|norms| format!("gradient norm {}", decimal(norms.gradient_norm)));
    let scale = metrics.loss_scale.map(|scale| format!("loss scale {}", power_of_two(scale)));
    let skipped = metrics.skipped_steps.filter(|skipped| *skipped > 0);
    let skipped = skipped.map(|skipped| format!("{} skipped", plural(skipped, "step")));
    let Throughput { samples_per_second, tokens_per_second } = metrics.speed;
    let speed = Some(speed(samples_per_second, tokens_per_second));
    let memory = match metrics.reserved_bytes {
        // Between steps a GPU has little in use. What it has reserved is what the steps needed.
        Some(reserved) => format!("in use {}{between}reserved {reserved}", metrics.in_use_bytes),
        None if oomph_memory::is_installed() => {
            format!("in use {}{between}peak {}", metrics.in_use_bytes, metrics.peak_in_use_bytes)
        }
        None => format!("memory {}", measured(metrics.in_use_bytes)),
    };
    [loss, accuracy, norm, scale, skipped, speed, Some(memory)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(between)
}

/// The result of an evaluation in one line.
pub(super) fn evaluated(metrics: &EvalMetrics) -> String {
    let accuracy = metrics.eval_accuracy.map(|accuracy| format!("  eval accuracy {}", percent(accuracy)));
    let perplexity = metrics.eval_perplexity.map(|value| format!("  eval perplexity {}", decimal(value)));
    let bits = metrics.eval_bits_per_byte.map(|value| format!("  bits per byte {}", decimal(value)));
    let EvalScores { top_5_accuracy, macro_f1, micro_f1, map, mae, rmse, r2 } = metrics.scores;
    let scores = [
        ("top-5 accuracy", top_5_accuracy.map(percent)),
        ("macro F1", macro_f1.map(percent)),
        ("micro F1", micro_f1.map(percent)),
        ("mAP", map.map(percent)),
        ("MAE", mae.map(decimal)),
        ("RMSE", rmse.map(decimal)),
        ("R²", r2.map(decimal)),
    ];
    let scores = scores.into_iter().filter_map(|(name, value)| Some(format!("  {name} {}", value?)));
    format!(
        "epoch {}  step {}  eval loss {}{}{}{}{}{}",
        grouped(metrics.epoch),
        grouped(metrics.step),
        decimal(metrics.eval_loss),
        perplexity.unwrap_or_default(),
        bits.unwrap_or_default(),
        accuracy.unwrap_or_default(),
        scores.collect::<String>(),
        if metrics.best { "  best so far" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use oomph_core::Bytes;
    use oomph_runs::StepNorms;

    use super::*;

    fn metrics(loss_scale: Option<f32>, skipped_steps: Option<usize>) -> StepMetrics {
        StepMetrics {
            step: 10,
            epoch: 1,
            loss: 0.5,
            accuracy: None,
            lr: 0.1,
            norms: None,
            loss_scale,
            skipped_steps,
            speed: Throughput { samples_per_second: 200.0, tokens_per_second: None },
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
        let with_norm = StepMetrics {
            norms: Some(StepNorms { gradient_norm: 2.5, parameter_norm: 9.0 }),
            ..metrics(None, None)
        };
        check(with_norm, "loss 0.5000, gradient norm 2.5000, 200 samples/s");
        let speed = Throughput { samples_per_second: 200.0, tokens_per_second: Some(51_200.0) };
        let of_tokens = StepMetrics { speed, ..metrics(None, None) };
        check(of_tokens, "loss 0.5000, 200 samples/s (51,200 tokens/s)");
        let on_gpu = StepMetrics { reserved_bytes: Some(Bytes::new(3 << 20)), ..metrics(None, None) };
        check(on_gpu, "loss 0.5000, 200 samples/s, in use 1 B, reserved 3.00 MiB");
    }
}
