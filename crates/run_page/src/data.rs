//! The data of the scripts: a column for each metric of each run.

use oomph_core::Bytes;
use oomph_runs::{EvaluationPoint, RunSummary, TrainingPoint};
use serde::Serialize;

/// Readings of all runs together. More are thinned out.
const MOST_POINTS: usize = 60_000;
/// Readings of a run that are kept in any case.
const FEWEST_POINTS: usize = 200;

/// The content of the page's data element.
#[derive(Serialize)]
pub(crate) struct Data {
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    name: String,
    training: Training,
    evaluations: Evaluations,
}

/// A column has an entry for each reading.
#[derive(Serialize)]
struct Training {
    step: Vec<usize>,
    seconds: Vec<f64>,
    loss: Vec<Option<f64>>,
    accuracy: Vec<Option<f64>>,
    lr: Vec<Option<f64>>,
    speed: Vec<Option<f64>>,
    memory: Vec<Option<Bytes>>,
}

/// A column has an entry for each evaluation.
#[derive(Serialize)]
struct Evaluations {
    step: Vec<usize>,
    seconds: Vec<f64>,
    loss: Vec<Option<f64>>,
    accuracy: Vec<Option<f64>>,
    perplexity: Vec<Option<f64>>,
}

impl Data {
    pub(crate) fn new(runs: &[RunSummary]) -> Self {
        let most = (MOST_POINTS / runs.len().max(1)).max(FEWEST_POINTS);
        let run = |run: &RunSummary| Run {
            name: run.run_dir.display().to_string(),
            training: training(&thinned(&run.curves.training, most)),
            evaluations: evaluations(&thinned(&run.curves.evaluations, most)),
        };
        Self { runs: runs.iter().map(run).collect() }
    }
}

fn training(points: &[TrainingPoint]) -> Training {
    let column = |of: fn(&TrainingPoint) -> Option<f64>| {
        points.iter().map(|point| of(point).filter(|value| value.is_finite()).map(rounded)).collect()
    };
    Training {
        step: points.iter().map(|point| point.step).collect(),
        seconds: points.iter().map(|point| rounded(point.seconds)).collect(),
        loss: column(|point| point.loss),
        accuracy: column(|point| point.accuracy),
        lr: column(|point| point.lr),
        speed: column(|point| Some(point.samples_per_second).filter(|speed| *speed > 0.0)),
        memory: points.iter().map(|point| point.in_use_bytes).collect(),
    }
}

fn evaluations(points: &[EvaluationPoint]) -> Evaluations {
    let column = |of: fn(&EvaluationPoint) -> Option<f64>| {
        points.iter().map(|point| of(point).filter(|value| value.is_finite()).map(rounded)).collect()
    };
    Evaluations {
        step: points.iter().map(|point| point.evaluation.step).collect(),
        seconds: points.iter().map(|point| rounded(point.seconds)).collect(),
        loss: column(|point| Some(point.evaluation.eval_loss)),
        accuracy: column(|point| point.evaluation.eval_accuracy),
        perplexity: column(|point| point.evaluation.eval_perplexity),
    }
}

/// At most about `most` points, evenly, and the last one.
fn thinned<T: Copy>(points: &[T], most: usize) -> Vec<T> {
    let apart = points.len().div_ceil(most).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(index, _)| index % apart == 0 || *index == last);
    kept.map(|(_, point)| *point).collect()
}

/// Six significant digits, which is finer than any screen resolves.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_ends() {
        let points: Vec<usize> = (0..1_000).collect();
        let kept = thinned(&points, 100);
        assert_eq!((kept.len(), kept[0], kept[100]), (101, 0, 999));
        assert_eq!(thinned(&points, 1_000), points);
        assert!(thinned::<usize>(&[], 10).is_empty());
    }
}
