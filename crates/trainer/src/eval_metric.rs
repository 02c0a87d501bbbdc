//! The measures of evaluations that a session offers.

use oomph_config::{ConfigError, sections::eval_metric::EvalMetric};
use oomph_core::{Split, TargetSpec};
use oomph_engine::{session::Session, task::default_task};
use oomph_scores::{LabelScores, Scores, has_top_5};

use crate::evaluate::bits_per_byte;

/// Empty scores of the session's predictions; `None` if its task offers none. They need the task's own prediction to be the
/// likeliest class.
pub(crate) fn empty_scores(session: &Session) -> Option<Scores> {
    if !has_scores(session) {
        return None;
    }
    Some(match Scores::of(&session.spec().target)? {
        Scores::Labels(scores) if !is_ranked(session) => Scores::Labels(scores.without_ranking()),
        scores => scores,
    })
}

/// Whether the outputs of all held-out samples fit into memory, which the average precision needs.
fn is_ranked(session: &Session) -> bool {
    session.source.len(Split::Test).saturating_mul(session.spec().target.outputs())
        <= LabelScores::MOST_RANKED
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
    if !matches!(target, TargetSpec::Values { .. }) {
        metrics.push(EvalMetric::Accuracy);
    }
    metrics.extend(session.task.has_perplexity(target).then_some(EvalMetric::Perplexity));
    metrics.extend(bits_per_byte(session, 0.0).map(|_| EvalMetric::BitsPerByte));
    match target {
        _ if !has_scores(session) => {}
        TargetSpec::Class { count } => {
            metrics.extend(has_top_5(*count).then_some(EvalMetric::Top5Accuracy));
            metrics.push(EvalMetric::MacroF1);
        }
        TargetSpec::Labels { .. } => {
            metrics.extend([EvalMetric::MacroF1, EvalMetric::MicroF1]);
            metrics.extend(is_ranked(session).then_some(EvalMetric::Map));
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
