//! What a program adds to a training of the library.

use std::collections::BTreeMap;

use oomph_core::{Bytes, current_device};
use oomph_data::Targets;
use oomph_engine::session::Session;
use oomph_memory::{Account, charge, read_device};
use oomph_runs::Event;

use crate::{TrainError, evaluate::Evaluation};

/// A program's own learning rate, measures and end of a training, for [`train_with`](crate::train_with). Each method has a
/// default that changes nothing.
///
/// A callback gets numbers and host memory, and never a tensor: it cannot keep memory of the device that no plan has. What
/// it allocates counts as host memory. If a call leaves more memory in use on the CPU device than before, the training warns
/// of it.
///
/// Callbacks run on rank 0, in the thread that called `train_with`.
pub trait Callback {
    /// The learning rate of step `step`, counted from 0. `scheduled` is that of `[schedule]`. All ranks use the result.
    ///
    /// It should depend on its arguments alone. Checkpoints do not have the state of a callback, so a run that is resumed
    /// ends with the same bytes only then.
    fn lr(&mut self, _step: usize, scheduled: f64) -> f64 {
        scheduled
    }

    /// Whether [`predictions`](Self::predictions) is called. It copies the outputs of every evaluation batch to the host.
    fn wants_predictions(&self) -> bool {
        false
    }

    /// Receives the outputs of the model on a batch of the held-out set, sample after sample, and its targets.
    fn predictions(&mut self, _outputs: &[f32], _targets: &Targets) {}

    /// The measures of an evaluation by name, after its last batch. They go into the event, `metrics.jsonl`, TensorBoard and
    /// MLflow.
    fn measures(&mut self, _evaluation: &Evaluation) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Whether the training ends after this event: [`Event::Step`] at every line of metrics, or [`Event::Eval`]. The state is
    /// saved.
    fn stops(&mut self, _event: &Event) -> bool {
        false
    }
}

/// A callback that changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCallback;

impl Callback for NoCallback {}

/// Checks that a session can call the callback.
///
/// # Errors
/// [`TrainError::PredictionsOnRanks`].
pub(crate) fn check(session: &Session, callback: &dyn Callback) -> Result<(), TrainError> {
    let ranks = session.world_size();
    // A coordinator evaluates alone.
    if callback.wants_predictions() && ranks > 1 && session.scatter().is_none() {
        return Err(TrainError::PredictionsOnRanks { ranks });
    }
    Ok(())
}

/// Calls a callback within a training.
pub(crate) struct Caller<'a> {
    callback: &'a mut dyn Callback,
    /// Whether the callback ended the training.
    pub(crate) has_stopped: bool,
    /// Bytes on the device that calls left in use, until they are warned of.
    left_bytes: u64,
    has_warned: bool,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(callback: &'a mut dyn Callback) -> Self {
        Self { callback, has_stopped: false, left_bytes: 0, has_warned: false }
    }

    /// The learning rate of step `step`, counted from 0.
    ///
    /// # Errors
    /// [`TrainError::CallbackLr`] if it is negative or not finite.
    pub(crate) fn lr(&mut self, step: usize, scheduled: f64) -> Result<f64, TrainError> {
        let lr = self.call(|callback| callback.lr(step, scheduled));
        if lr.is_finite() && lr >= 0.0 { Ok(lr) } else { Err(TrainError::CallbackLr { step: step + 1, lr }) }
    }

    pub(crate) fn wants_predictions(&self) -> bool {
        self.callback.wants_predictions()
    }

    pub(crate) fn predictions(&mut self, outputs: &[f32], targets: &Targets) {
        self.call(|callback| callback.predictions(outputs, targets));
    }

    pub(crate) fn measures(&mut self, evaluation: &Evaluation) -> BTreeMap<String, f64> {
        self.call(|callback| callback.measures(evaluation))
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.has_stopped |= self.call(|callback| callback.stops(event));
    }

    /// A warning of memory that calls left in use on the device, once.
    pub(crate) fn warning(&mut self) -> Option<String> {
        if self.left_bytes == 0 || self.has_warned {
            return None;
        }
        self.has_warned = true;
        let left = Bytes::new(self.left_bytes);
        Some(format!("the callback left {left} in use on the device, which no plan has"))
    }

    fn call<T>(&mut self, work: impl FnOnce(&mut dyn Callback) -> T) -> T {
        let in_use = || read_device(current_device()).in_use_bytes.get();
        let before = in_use();
        let result = charge(Account::Host, || work(self.callback));
        self.left_bytes += in_use().saturating_sub(before);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Halves;

    impl Callback for Halves {
        fn lr(&mut self, step: usize, scheduled: f64) -> f64 {
            if step == 3 { f64::NAN } else { scheduled / 2.0 }
        }

        fn stops(&mut self, event: &Event) -> bool {
            matches!(event, Event::Warning { .. })
        }
    }

    #[test]
    fn a_learning_rate_that_is_none_is_an_error() {
        let mut halves = Halves;
        let mut caller = Caller::new(&mut halves);
        assert_eq!(caller.lr(2, 0.5).expect("a rate"), 0.25);
        match caller.lr(3, 0.5) {
            Err(TrainError::CallbackLr { step: 4, lr }) => assert!(lr.is_nan()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn memory_that_calls_leave_is_warned_of_once() {
        let mut halves = Halves;
        let mut caller = Caller::new(&mut halves);
        assert_eq!(caller.warning(), None);
        caller.left_bytes = 2048;
        assert!(caller.warning().expect("a warning").contains("2.00 KiB"));
        assert_eq!(caller.warning(), None);
    }

    #[test]
    fn a_training_stays_stopped() {
        let mut halves = Halves;
        let mut caller = Caller::new(&mut halves);
        for (message, has_stopped) in [("one", true), ("two", true)] {
            caller.event(&Event::Warning { message: message.to_owned() });
            assert_eq!(caller.has_stopped, has_stopped);
        }
    }
}
