//! The measures of evaluations that a session offers, and their values.

use oomph_config::{ConfigError, EvalMetric};
use oomph_core::TargetSpec;
use oomph_engine::{session::Session, task::default_task};
use oomph_runs::EvalScores;

use crate::{
    evaluate::Evaluation,
    scores::{ClassScores, Scores, ValueScores},
};

/// Empty scores of the session's predictions; `None` if its task offers none. They need the task's own prediction to be the
/// likeliest class.
pub(crate) fn empty_scores(session: &Session) -> Option<Scores> {
    let target = &session.spec().target;
    let is_default = session.config.train.task.as_deref().is_none_or(|task| task == default_task(target));
    Scores::of(target).filter(|_| is_default)
}

/// The measures that evaluations of the session have. A task of the user's own may count no correct predictions: its
/// evaluations then have no accuracy.
pub fn eval_metrics(session: &Session) -> Vec<EvalMetric> {
    let target = &session.spec().target;
    let mut metrics = vec![EvalMetric::Loss];
    if matches!(target, TargetSpec::Class { .. } | TargetSpec::Tokens { .. }) {
        metrics.push(EvalMetric::Accuracy);
    }
    metrics.extend(session.task.has_perplexity(target).then_some(EvalMetric::Perplexity));
    match empty_scores(session) {
        Some(Scores::Classes(scores)) => {
            metrics.extend(scores.top_5().map(|_| EvalMetric::Top5Accuracy));
            metrics.push(EvalMetric::MacroF1);
        }
        Some(Scores::Values(_)) => metrics.extend([EvalMetric::Mae, EvalMetric::Rmse, EvalMetric::R2]),
        None => {}
    }
    metrics
}

/// Checks that evaluations of the session have the measure `train.best`.
///
/// # Errors
/// An error that lists the measures that they have.
pub(crate) fn check_best(session: &Session) -> Result<(), ConfigError> {
    let metrics = eval_metrics(session);
    if metrics.contains(&session.config.train.best) {
        return Ok(());
    }
    Err(session.config.not_allowed("train.best", metrics.into_iter().map(EvalMetric::name)))
}

impl Evaluation {
    /// The value of a measure; `None` if the evaluation does not have it.
    pub fn value(&self, metric: EvalMetric) -> Option<f64> {
        let scores = self.eval_scores();
        match metric {
            EvalMetric::Loss => Some(self.loss),
            EvalMetric::Accuracy => self.accuracy,
            EvalMetric::Perplexity => self.perplexity,
            EvalMetric::Top5Accuracy => scores.top_5_accuracy,
            EvalMetric::MacroF1 => scores.macro_f1,
            EvalMetric::Mae => scores.mae,
            EvalMetric::Rmse => scores.rmse,
            EvalMetric::R2 => scores.r2,
        }
    }

    /// The scores of its predictions, as the log has them.
    pub(crate) fn eval_scores(&self) -> EvalScores {
        let of_classes = |scores: &ClassScores| EvalScores {
            top_5_accuracy: scores.top_5(),
            macro_f1: Some(scores.averages().f1),
            ..EvalScores::default()
        };
        let of_values = |scores: &ValueScores| EvalScores {
            mae: Some(scores.mae()),
            rmse: Some(scores.rmse()),
            r2: Some(scores.r2()),
            ..EvalScores::default()
        };
        match &self.scores {
            Some(Scores::Classes(scores)) => of_classes(scores),
            Some(Scores::Values(scores)) => of_values(scores),
            None => EvalScores::default(),
        }
    }
}
