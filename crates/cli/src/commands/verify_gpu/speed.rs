//! The time of a step.

use oomph_trainer::measure::WARMUP;
use serde_json::json;

use super::{
    figures::{CheckError, Figures},
    runner::Runner,
    trainings::{RESNET18, RESNET50, Training, WIDE_LSTM},
};
use crate::numbers::{rate, step_time};

/// Timed steps.
const STEPS: usize = 20;
const QUICK_STEPS: usize = 3;

/// The trainings, in the order of their checks.
pub(super) fn list(is_quick: bool) -> &'static [&'static Training] {
    const ALL: [&Training; 3] = [&WIDE_LSTM, &RESNET18, &RESNET50];
    if is_quick { &ALL[..2] } else { &ALL }
}

pub(super) fn check(training: &Training, runner: &Runner<'_>) -> Result<Figures, CheckError> {
    let config = runner.fitting(training)?;
    let timed = if runner.is_quick { QUICK_STEPS } else { STEPS };
    let measured = runner.measured(&config, WARMUP + timed, &[])?;
    let (seconds, samples) = (measured.step_seconds, measured.samples_per_second);
    let batch = config.train.batch;
    Ok(Figures {
        passes: true,
        limit: None,
        finding: format!("{} a step, {} samples/s, batch {batch}", step_time(seconds), rate(samples)),
        values: json!({
            "batch": batch,
            "steps": timed,
            "step_seconds": seconds,
            "samples_per_second": samples,
            "losses": measured.losses,
        }),
    })
}
