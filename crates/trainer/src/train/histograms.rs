use std::{cell::RefCell, rc::Rc};

use oomph_model::{AnyTensor, ModelError, Named};
use oomph_runs::tensorboard::Histogram;

/// Histograms of the gradients of the last step, before clipping.
#[derive(Clone, Default)]
pub(super) struct Histograms(pub(super) Rc<RefCell<Vec<(String, Histogram)>>>);

impl Histograms {
    /// Copies one gradient at a time, so the host holds at most the largest.
    pub(super) fn take(&self, gradients: &Named<AnyTensor>) -> Result<(), ModelError> {
        let mut taken = self.0.borrow_mut();
        for (name, gradient) in gradients {
            taken.extend(Histogram::of_tensor(gradient)?.map(|histogram| (name.clone(), histogram)));
        }
        Ok(())
    }
}
