use oomph_advice::planning::{PlanOptions, STEPS, micro_batch, plan};
use oomph_core::Bytes;
use oomph_engine::session::Session;
use oomph_timeline::{Category, SpanKind, Split};

use crate::TrainError;

/// The planned memory of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedStep {
    /// Bytes in use at the planned peak of training, by category. Evaluation is left out.
    pub peak: Split,
    /// Bytes of the category `optimizer state` after the planned steps.
    pub state_bytes: Bytes,
    /// Trainable elements of the model.
    pub parameters: usize,
}

impl PlannedStep {
    /// The planned peak of training.
    pub fn peak_bytes(&self) -> Bytes {
        self.peak.total()
    }

    /// Bytes of optimizer state for each parameter.
    pub fn state_bytes_per_parameter(&self) -> f64 {
        per_parameter(self.state_bytes, self.parameters)
    }
}

/// Plans a step of the session's training. The planner executes nothing and allocates no tensor.
///
/// # Errors
/// The errors of [`plan`](oomph_advice::planning::plan).
pub fn plan_step(session: &Session) -> Result<PlannedStep, TrainError> {
    // The planned evaluation shows which blocks outlive the steps. Its own bytes are not compared.
    let timeline = plan(session, PlanOptions::default())?;
    let end = timeline.spans_of(SpanKind::Step).take(STEPS).map(|step| step.end).max().unwrap_or(0);
    let state = timeline.levels().get(end as usize).copied().unwrap_or_default();
    let summary = session.summary(micro_batch(session))?;
    Ok(PlannedStep {
        peak: timeline.peak_within(0..end).categories,
        state_bytes: state.of(Category::OptimizerState),
        parameters: summary.parameters - summary.frozen_parameters,
    })
}

pub(super) fn per_parameter(bytes: Bytes, parameters: usize) -> f64 {
    bytes.get() as f64 / parameters.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_parameters_has_no_state_for_each() {
        assert_eq!(per_parameter(Bytes::default(), 0), 0.0);
        assert_eq!(per_parameter(Bytes::new(800), 100), 8.0);
    }
}
