//! The measures of evaluations that a session offers.

use oomph_config::{ConfigError, sections::eval_metric::EvalMetric};
use oomph_core::TargetSpec;
use oomph_engine::{session::Session, task::default_task};

use crate::scores::{Scores, has_top_5};

/// Empty scores of the session's predictions; `None` if its task offers none. They need the task's own prediction to be the
/// likeliest class.
pub(crate) fn empty_scores(session: &Session) -> Option<Scores> {
    if has_scores(session) { Scores::of(&session.spec().target) } else { None }
}

fn has_scores(session: &Session) -> bool {
    let target = &session.spec().target;
    let is_default = session.config.train.task.as_deref().is_none_or(|task| task == default_task(target));
    is_default && Scores::exist_for(target)
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
    match target {
        _ if !has_scores(session) => {}
        TargetSpec::Class { count } => {
            metrics.extend(has_top_5(*count).then_some(EvalMetric::Top5Accuracy));
            metrics.push(EvalMetric::MacroF1);
        }
        TargetSpec::Values { .. } => metrics.extend([EvalMetric::Mae, EvalMetric::Rmse, EvalMetric::R2]),
        TargetSpec::Tokens { .. } => {}
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
