use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Named};
use oomph_runs::tensorboard::Histogram;

use super::training::Training;
use crate::TrainError;

impl Training<'_> {
    /// Requests the gradients of the next step, if their histograms are due.
    pub(super) fn take_histograms_next(&mut self) {
        let mut next = self.progress.clone();
        next.count_step();
        let is_wanted = self.log.event_file.is_some() && next.ends(self.session.config.run.histograms);
        self.histograms.0.borrow_mut().clear();
        let histograms = self.histograms.clone();
        let hook = move |gradients: &Named<AnyTensor>| histograms.take(gradients);
        self.driver.stepper.hook_gradients(is_wanted.then(|| Box::new(hook) as _));
    }

    /// Writes histograms of the gradients and the parameters, if the last step took them.
    pub(super) fn write_histograms(&mut self) -> Result<(), TrainError> {
        let Some(file) = &mut self.log.event_file else { return Ok(()) };
        let gradients = std::mem::take(&mut *self.histograms.0.borrow_mut());
        if gradients.is_empty() {
            return Ok(());
        }
        charge(Account::Host, || -> Result<(), TrainError> {
            let mut parameters = Vec::new();
            let mut failed = None;
            self.driver.stepper.model.visit(&mut |info, tensor| match Histogram::of_tensor(&tensor) {
                Ok(histogram) => parameters.extend(histogram.map(|it| (info.name.to_owned(), it))),
                Err(error) => failed = failed.take().or(Some(error)),
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
            let tagged =
                |group: &'static str| move |(name, histogram)| (format!("{group}/{name}"), histogram);
            let all = parameters.into_iter().map(tagged("parameters"));
            let all = all.chain(gradients.into_iter().map(tagged("gradients")));
            Ok(file.histograms(self.progress.step, all)?)
        })
    }
}
