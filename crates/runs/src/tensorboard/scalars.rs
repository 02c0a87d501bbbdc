use oomph_core::Bytes;

use crate::event::{EvalMetrics, Event, StepMetrics};

/// The step and the scalars of an event by tag. `None` without scalars.
pub(super) fn scalars(event: &Event) -> Option<(usize, Vec<(String, f64)>)> {
    let (step, named) = match event {
        Event::Step(metrics) => (metrics.step, of_steps(metrics)),
        Event::Eval(metrics) => (metrics.step, of_evaluation(metrics)),
        _ => return None,
    };
    let known = named.into_iter().filter_map(|(tag, value)| Some((tag, value?)));
    Some((step, known.collect()))
}

fn of_steps(metrics: &StepMetrics) -> Vec<(String, Option<f64>)> {
    let bytes = |bytes: Bytes| bytes.get() as f64;
    let mut named = named([
        ("loss/train", Some(metrics.loss)),
        ("accuracy/train", metrics.accuracy),
        ("optimizer/learning_rate", Some(metrics.lr)),
        ("optimizer/loss_scale", metrics.loss_scale.map(f64::from)),
        ("optimizer/skipped_steps", metrics.skipped_steps.map(|steps| steps as f64)),
        ("speed/samples_per_second", Some(metrics.samples_per_second)),
        ("memory/in_use", Some(bytes(metrics.in_use_bytes))),
        ("memory/peak_in_use", Some(bytes(metrics.peak_in_use_bytes))),
        ("memory/reserved", metrics.reserved_bytes.map(bytes)),
        ("memory/pages_peak", metrics.pages_peak_bytes.map(bytes)),
    ]);
    let categories = metrics.step_peak_bytes.iter().flat_map(|split| split.iter());
    named
        .extend(categories.map(|(category, held)| (format!("memory/{}", category.key()), Some(bytes(held)))));
    named
}

fn of_evaluation(metrics: &EvalMetrics) -> Vec<(String, Option<f64>)> {
    named([("loss/eval", Some(metrics.eval_loss)), ("accuracy/eval", metrics.eval_accuracy)])
}

fn named<const N: usize>(values: [(&str, Option<f64>); N]) -> Vec<(String, Option<f64>)> {
    values.into_iter().map(|(tag, value)| (tag.to_owned(), value)).collect()
}
