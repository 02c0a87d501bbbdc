use std::cmp::Reverse;

use oomph_advice::planning::{PlanOptions, PlannedPart, STEPS, micro_batch, plan_parts, plan_with_time};
use oomph_core::Bytes;
use oomph_engine::session::Session;
use oomph_timeline::{Category, SpanKind, Split, Timeline};

use crate::TrainError;

/// The planned memory and time of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedStep {
    /// Bytes in use at the planned peak of training, by category. Evaluation is left out. Of several devices it is the fullest.
    pub peak: Split,
    /// Bytes of the category `optimizer state` after the planned steps, on the same device.
    pub state_bytes: Bytes,
    /// Trainable elements of the model.
    pub parameters: usize,
    /// Seconds of a step, on one device whose speed is known.
    pub step_seconds: Option<f64>,
}

impl PlannedStep {
    /// The planned peak of training.
    pub fn peak_bytes(&self) -> Bytes {
        self.peak.total()
    }

    /// Bytes of optimizer state for each parameter of the model.
    pub fn state_bytes_per_parameter(&self) -> f64 {
        per_parameter(self.state_bytes, self.parameters)
    }
}

/// Plans a step of the session's training. The planner executes nothing and allocates no tensor.
///
/// # Errors
/// The errors of [`plan_with_time`](oomph_advice::planning::plan_with_time).
pub fn plan_step(session: &Session) -> Result<PlannedStep, TrainError> {
    let options = PlanOptions::default();
    // The planned evaluation shows which blocks outlive the steps. Its own bytes are not compared.
    let (timeline, step_seconds) = match plan_parts(session, options, STEPS)?.and_then(fullest) {
        Some(timeline) => (timeline, None),
        None => {
            let (timeline, time) = plan_with_time(session, options)?;
            (timeline, time.map(|time| time.step_seconds))
        }
    };
    let end = end_of_steps(&timeline);
    let state = timeline.levels().get(end as usize).copied().unwrap_or_default();
    let summary = session.summary(micro_batch(session))?;
    Ok(PlannedStep {
        peak: timeline.peak_within(0..end).categories,
        state_bytes: state.of(Category::OptimizerState) + timeline.offloaded.of(Category::OptimizerState),
        parameters: summary.parameters - summary.frozen_parameters,
        step_seconds,
    })
}

/// The timeline of the device with the highest peak in training, and of several the first.
fn fullest(parts: Vec<PlannedPart>) -> Option<Timeline> {
    let peak = |timeline: &Timeline| timeline.peak_within(0..end_of_steps(timeline)).categories.total();
    let timelines = parts.into_iter().map(|part| part.timeline);
    timelines.min_by_key(|timeline| Reverse(peak(timeline)))
}

fn end_of_steps(timeline: &Timeline) -> u32 {
    timeline.spans_of(SpanKind::Step).take(STEPS).map(|step| step.end).max().unwrap_or(0)
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
