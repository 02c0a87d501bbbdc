use serde::{Deserialize, Serialize};

/// The best evaluation so far, and the number of evaluations since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopping {
    /// The lowest evaluation loss so far.
    pub best_loss: Option<f64>,
    /// The step of that evaluation.
    pub best_step: Option<usize>,
    /// Evaluations since then without improvement.
    pub without_improvement: usize,
}

impl EarlyStopping {
    /// Counts an evaluation. Returns whether it improves on the best loss by more than `min_delta`.
    pub fn observe(&mut self, loss: f64, step: usize, min_delta: f64) -> bool {
        // A loss that is not finite is never better. The first finite loss always is.
        let better = loss.is_finite() && self.best_loss.is_none_or(|best| loss < best - min_delta);
        if better {
            *self = Self { best_loss: Some(loss), best_step: Some(step), without_improvement: 0 };
        } else {
            self.without_improvement += 1;
        }
        better
    }

    /// Whether the last `patience` evaluations did not improve.
    pub fn is_over(&self, patience: Option<usize>) -> bool {
        patience.is_some_and(|patience| self.without_improvement >= patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(losses: &[f64], min_delta: f64) -> EarlyStopping {
        let mut stopping = EarlyStopping::default();
        for (index, loss) in losses.iter().enumerate() {
            stopping.observe(*loss, index + 1, min_delta);
        }
        stopping
    }

    #[test]
    fn the_best_is_the_lowest_by_more_than_the_delta() {
        let stopping = observe(&[1.0, 0.5, 0.49, 0.6], 0.05);
        assert_eq!((stopping.best_loss, stopping.best_step), (Some(0.5), Some(2)));
        assert_eq!(stopping.without_improvement, 2);
        assert!(stopping.is_over(Some(2)));
        assert!(!stopping.is_over(Some(3)));
        assert!(!stopping.is_over(None));
    }

    #[test]
    fn a_loss_that_is_no_number_is_never_best() {
        let stopping = observe(&[f64::NAN, f64::INFINITY, 2.0, f64::NAN], 0.0);
        assert_eq!((stopping.best_loss, stopping.best_step), (Some(2.0), Some(3)));
        assert_eq!(stopping.without_improvement, 1);
    }
}
