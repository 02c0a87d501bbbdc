use serde::{Deserialize, Serialize};

/// Watches the evaluation loss: which evaluation was best, and how many since have not improved on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopping {
    /// The lowest evaluation loss so far.
    pub best_loss: Option<f64>,
    /// The step of that evaluation.
    pub best_step: Option<usize>,
    /// Evaluations since that did not improve.
    pub without_improvement: usize,
}

impl EarlyStopping {
    /// Takes one more evaluation; whether it is better than all before by more than `min_delta`.
    pub fn observe(&mut self, loss: f64, step: usize, min_delta: f64) -> bool {
        // A loss that is not a number is never better, and any number is better than none.
        let better = loss.is_finite() && self.best_loss.is_none_or(|best| loss < best - min_delta);
        if better {
            *self = Self { best_loss: Some(loss), best_step: Some(step), without_improvement: 0 };
        } else {
            self.without_improvement += 1;
        }
        better
    }

    /// Whether `patience` evaluations in a row did not improve.
    pub fn is_over(&self, patience: Option<usize>) -> bool {
        patience.is_some_and(|patience| self.without_improvement >= patience)
    }
}
