//! Runs as training makes them, with hostile names, and with hardly anything in them.

use std::{collections::BTreeMap, path::PathBuf};

use oomph_config::Value;
use oomph_run_page::RunsPage;
use oomph_runs::{EvaluationPoint, RunCurves, RunEvaluation, RunStatus, RunSummary, TrainingPoint};

/// Without readings.
fn bare(name: &str) -> RunSummary {
    RunSummary {
        run_dir: PathBuf::from(name),
        model: "resnet18".into(),
        source: "digits".into(),
        status: RunStatus::Finished,
        step: 0,
        steps: Some(675),
        loss: None,
        best: None,
        last: None,
        peak_in_use_bytes: None,
        samples_per_second: None,
        seconds: 0.0,
        started_unix_seconds: Some(1_764_100_000),
        error: None,
        config: BTreeMap::new(),
        curves: RunCurves::default(),
    }
}

/// A loss that falls from 2.3 with noise, an evaluation every `count / 15` readings.
pub(crate) fn run(name: &str, count: usize, speed: f64) -> RunSummary {
    let mut run = bare(name);
    let share = |index: usize| index as f64 / count as f64;
    let noise = |index: usize| (index as f64 * 0.618_034).fract() - 0.5;
    let loss = |index: usize| 0.05 + 2.25 * (-4.0 * speed * share(index)).exp() + 0.06 * noise(index);
    for index in 1..=count {
        let point = TrainingPoint {
            step: index * 10,
            seconds: index as f64 * 0.3 / speed,
            loss: Some(loss(index)),
            accuracy: Some((1.0 - loss(index) / 2.6).clamp(0.0, 1.0)),
            lr: Some(0.1 * (1.0 + (std::f64::consts::PI * share(index)).cos()) / 2.0),
            samples_per_second: 1_200.0 * speed + 90.0 * noise(index),
            in_use_bytes: Some(oomph_core::Bytes::new((15.0e6 * speed + 4e5 * noise(index)) as u64)),
        };
        run.curves.training.push(point);
        if index % (count / 15).max(1) == 0 {
            let evaluation = RunEvaluation {
                step: index * 10,
                eval_loss: loss(index) + 0.08 * share(index),
                eval_accuracy: Some(0.97 - loss(index) / 3.0),
                eval_perplexity: None,
                eval_bits_per_byte: None,
            };
            let seconds = point.seconds;
            run.curves.evaluations.push(EvaluationPoint { evaluation, is_best: false, seconds });
            run.last = Some(evaluation);
        }
    }
    run.best = run.last;
    (run.step, run.seconds) = (count * 10, count as f64 * 0.3 / speed);
    run.peak_in_use_bytes = Some(oomph_core::Bytes::new(18_400_000));
    run.samples_per_second = Some(1_200.0 * speed);
    let lr = Value::Number(0.1 * speed);
    run.config = [("optimizer.lr", lr), ("model.name", Value::String("resnet18".into()))]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
    run
}

/// Three runs of different length; the last one failed.
pub(crate) fn three() -> Vec<RunSummary> {
    let mut runs =
        vec![run("runs/resnet", 300, 1.0), run("runs/resnet-adam", 220, 1.6), run("runs/lr-3", 40, 0.4)];
    runs[1].config.insert("optimizer.beta1".into(), Value::Number(0.9));
    runs[2].status = RunStatus::Failed;
    runs[2].error = Some("the loss of step 401 is not finite".into());
    runs[2].curves.training[39].loss = Some(9e9);
    runs
}

/// A language model, without a measured peak.
pub(crate) fn language() -> Vec<RunSummary> {
    let mut run = run("runs/lstm-lm", 120, 0.8);
    for point in &mut run.curves.evaluations {
        point.evaluation.eval_perplexity = Some(point.evaluation.eval_loss.exp());
    }
    for point in &mut run.curves.training {
        point.in_use_bytes = None;
    }
    vec![run]
}

/// More runs than colours, with 20,000 readings.
pub(crate) fn many() -> Vec<RunSummary> {
    (0..40).map(|index| run(&format!("sweep/{index}"), 500, 0.5 + index as f64 / 20.0)).collect()
}

/// Names and errors that would be markup.
pub(crate) fn hostile() -> Vec<RunSummary> {
    let text = "</script><b title=\"x\">'&amp; \u{202e}txt \u{7}<img src=x onerror=alert(1)>";
    let mut runs = three();
    for run in &mut runs {
        run.run_dir = PathBuf::from(format!("{}{text}", run.run_dir.display()));
        run.model = text.into();
        run.error = Some(text.into());
        run.config.insert(format!("tune.{text}"), Value::String(format!("{text}{}", run.step)));
    }
    runs
}

/// No run, a run without readings, and one with a single reading.
pub(crate) fn few(count: usize) -> Vec<RunSummary> {
    [bare("runs/none"), run("runs/one", 1, 1.0)].into_iter().take(count).collect()
}

pub(crate) fn page(runs: &[RunSummary]) -> RunsPage<'_> {
    RunsPage { runs, made: "2026-11-26 01:30".into() }
}
