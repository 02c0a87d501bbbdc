//! How long a planned training takes.

use oomph_config::Interval;
use oomph_engine::session::{Session, steps, steps_per_epoch};
use oomph_plan::{
    Recording,
    time::{RecordedSteps, Speeds},
};

use super::{
    chosen::Chosen,
    device_recording::STEPS,
    evaluation::{eval_order_of, largest_eval_share},
};

/// The planned time of a step on one device, and of an evaluation of the held-out set.
///
/// Loading is not part of it: threads load the next batch while the device computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlannedTime {
    /// Seconds of an optimizer step.
    pub step_seconds: f64,
    /// Seconds of an evaluation.
    pub evaluation_seconds: f64,
}

impl PlannedTime {
    /// From the recording of [`STEPS`] steps, of which the last is like all later ones, and maybe of an evaluation batch.
    pub(super) fn of(session: &Session, recording: &Recording, speeds: &Speeds, chosen: &Chosen) -> Self {
        let recorded = RecordedSteps::of(recording);
        let micro_batch = chosen.split.micro_batch;
        let micro_batches = session.share_of(chosen.batch).div_ceil(micro_batch.max(1));
        let seconds = |name: &str, count| recorded.step(name).map_or(0.0, |step| step.seconds(speeds, count));
        let batches = eval_order_of(session, largest_eval_share(session, micro_batch), 1).batches();
        Self {
            step_seconds: seconds(&format!("step {STEPS}"), micro_batches),
            evaluation_seconds: seconds("evaluation", 1) * batches as f64,
        }
    }

    /// Seconds of an epoch of the session, with its evaluations.
    pub fn epoch_seconds(&self, session: &Session) -> f64 {
        self.seconds_of(steps_per_epoch(session), session)
    }

    /// Seconds of the steps that the session's run has left after `done` of them, with the evaluations between.
    pub fn seconds_after(&self, session: &Session, done: usize) -> f64 {
        self.seconds_of(steps(session).saturating_sub(done), session)
    }

    fn seconds_of(&self, steps: usize, session: &Session) -> f64 {
        let evaluations = match session.config.train.eval_every {
            Interval::Never => 0,
            Interval::Epochs(epochs) => {
                steps.div_ceil(epochs.saturating_mul(steps_per_epoch(session)).max(1))
            }
            Interval::Steps(every) => steps.div_ceil(every.max(1)),
            // One at the end; the clock decides how many come before.
            Interval::Minutes(_) => 1,
        };
        self.step_seconds * steps as f64 + self.evaluation_seconds * evaluations as f64
    }
}
