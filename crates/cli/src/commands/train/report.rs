use oomph_core::printable;
use oomph_runs::{Done, Ended, Throughput};
use oomph_trainer::{Session, steps, steps_per_epoch};

use crate::{
    numbers::{decimal, elapsed, grouped, measured, percent, plural, speed, stage_range},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

/// The table at the end of a training.
pub(super) fn report(done: &Done, session: &Session) -> String {
    let epochs = done.step as f64 / steps_per_epoch(session).max(1) as f64;
    let ended = match done.ended {
        Ended::Complete => None,
        Ended::EarlyStopping => {
            Some(format!("early stopping: {} stopped improving", done.best_metric.name()))
        }
        Ended::Callback => Some("ended by a callback".into()),
        Ended::Paused => Some("paused".into()),
        Ended::Interrupted => Some("interrupted (SIGINT)".into()),
        Ended::Terminated => Some("terminated (SIGTERM or SIGHUP)".into()),
    };
    let best = done.best_value.zip(done.best_step);
    let shown = if done.best_metric.is_share() { percent } else { decimal };
    let best = best.map(|(value, step)| format!("{} at step {}", shown(value), grouped(step)));
    let best_name = format!("best {}", done.best_metric.name());
    let skipped = (done.skipped_samples > 0).then(|| plural(done.skipped_samples, "training sample"));
    let overflowed = done.skipped_steps.filter(|skipped| *skipped > 0);
    let overflowed =
        overflowed.map(|skipped| format!("{} with overflowed gradients", plural(skipped, "step")));
    let steps = format!("{} of {}", grouped(done.step), plural(steps(session), "step"));
    let Throughput { samples_per_second, tokens_per_second } = done.speed;
    let table = pairs([
        ("ended", ended),
        ("trained", Some(format!("{steps}, {}", in_epochs(epochs)))),
        ("train loss", done.loss.map(decimal)),
        ("eval loss", done.eval_loss.map(decimal)),
        ("eval perplexity", done.eval_perplexity.map(decimal)),
        ("bits per byte", done.eval_bits_per_byte.map(decimal)),
        ("eval accuracy", done.eval_accuracy.map(percent)),
        (&best_name, best),
        ("unreadable", skipped),
        ("skipped", overflowed),
        // A resumed run that was complete takes no step.
        ("speed", (samples_per_second > 0.0).then(|| speed(samples_per_second, tokens_per_second))),
        // Between steps a GPU has little in use. What it has reserved is what the steps needed.
        ("peak in use", done.peak_reserved_bytes.is_none().then(|| measured(done.peak_in_use_bytes))),
        ("peak reserved", done.peak_reserved_bytes.map(|bytes| bytes.to_string())),
        ("time", Some(elapsed(done.seconds))),
        ("run directory", Some(done.run_dir.display().to_string())),
        ("checkpoint", Some(done.checkpoint.display().to_string())),
    ]);
    match devices(done) {
        Some(devices) => format!("{table}\n{devices}"),
        None => table,
    }
}

/// The table of devices, if there are several.
fn devices(done: &Done) -> Option<Table<5>> {
    let missing = || "–".to_owned();
    let mut table =
        Table::new([Right(""), Left("device"), Left("stages"), Right("peak in use"), Right("idle")]);
    for (index, device) in done.devices.iter().enumerate() {
        table.row([
            index.to_string(),
            device.device.clone(),
            device.stages.as_ref().map(stage_range).unwrap_or_default(),
            device.peak_in_use_bytes.map_or_else(missing, |bytes| bytes.to_string()),
            device.idle_share.map(percent).unwrap_or_default(),
        ]);
    }
    (!done.devices.is_empty()).then(|| table.without_empty_columns())
}

/// `1 epoch`, `2.5 epochs`, `0.02 epochs`.
fn in_epochs(epochs: f64) -> String {
    // Two digits of a part of an epoch, and no digit more.
    let digits = (1..=4).find(|digits| epochs * 10f64.powi(*digits) >= 10.0).unwrap_or(4) as usize;
    let text = format!("{epochs:.digits$}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "1" => "1 epoch".into(),
        count => format!("{count} epochs"),
    }
}

/// The command that resumes a stopped training.
pub(super) fn how_to_resume(done: &Done) -> Option<String> {
    let stopped = matches!(done.ended, Ended::Paused | Ended::Interrupted | Ended::Terminated);
    stopped.then(|| {
        format!(
            "checkpoint saved; `oomph train --resume {}` continues the run",
            printable(done.run_dir.display())
        )
    })
}
