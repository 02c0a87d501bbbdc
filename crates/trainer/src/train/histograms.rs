use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, ModelError, Named};
use oomph_runs::{state::TrainProgress, tensorboard::Histogram};

use super::training::Training;
use crate::TrainError;

/// Histograms of the gradients of the last step, before clipping.
#[derive(Default)]
pub(super) struct Histograms(Arc<Mutex<Vec<(String, Histogram)>>>);

impl Histograms {
    fn taken(&self) -> MutexGuard<'_, Vec<(String, Histogram)>> {
        // What a panic left is written nowhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Training<'_> {
    /// Requests the gradients of the next step, if their histograms are due after it. `next` is the progress after it.
    pub(super) fn take_histograms_next(&mut self, next: &TrainProgress) {
        let is_wanted = self.log.event_file.is_some() && next.ends(self.session.config.run.histograms);
        self.histograms.taken().clear();
        let histograms = Histograms(self.histograms.0.clone());
        let hook = move |gradients: &Named<AnyTensor>| -> Result<(), ModelError> {
            // One gradient at a time is copied, so the host holds at most the largest.
            for (name, gradient) in gradients {
                let histogram = Histogram::of_tensor(gradient)?;
                histograms.taken().extend(histogram.map(|histogram| (name.clone(), histogram)));
            }
            Ok(())
        };
        self.driver.stepper.hook_gradients(is_wanted.then(|| Box::new(hook) as _));
    }

    /// Writes histograms of the gradients and the parameters, if the last step took them.
    pub(super) fn write_histograms(&mut self) -> Result<(), TrainError> {
        let Some(file) = &mut self.log.event_file else { return Ok(()) };
        let gradients = std::mem::take(&mut *self.histograms.taken());
        if gradients.is_empty() {
            return Ok(());
        }
        charge(Account::Host, || -> Result<(), TrainError> {
            let mut parameters = Vec::new();
            self.driver.stepper.model.try_visit(|info, tensor| -> Result<(), ModelError> {
                let histogram = Histogram::of_tensor(&tensor)?;
                parameters.extend(histogram.map(|histogram| (info.name.to_owned(), histogram)));
                Ok(())
            })?;
            let tagged =
                |group: &'static str| move |(name, histogram)| (format!("{group}/{name}"), histogram);
            let all = parameters.into_iter().map(tagged("parameters"));
            let all = all.chain(gradients.into_iter().map(tagged("gradients")));
            Ok(file.histograms(self.progress.step, all)?)
        })
    }
}
