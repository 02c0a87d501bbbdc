//! What a training writes into its event file beside its events.

use oomph_memory::{Account, charge};

use super::Training;
use crate::{
    TrainError,
    tensorboard::{EventFile, Histogram},
};

impl Training<'_> {
    /// To be called once it is known which step is the first.
    pub(super) fn begin_event_file(&mut self) -> Result<(), TrainError> {
        if self.session.config.run.tensorboard {
            let file = charge(Account::Host, || EventFile::create(self.run.path(), self.progress.step))?;
            self.event_file = Some(file);
        }
        Ok(())
    }

    /// Whether the step that follows is one whose distributions are asked for.
    pub(super) fn histograms_are_due_next(&self) -> bool {
        let mut next = self.progress.clone();
        next.count_step();
        self.event_file.is_some() && next.ends(self.session.config.run.histograms)
    }

    /// Writes those of the gradients that the step left, where they were asked for, and of the parameters that it made.
    pub(super) fn write_histograms(&mut self) -> Result<(), TrainError> {
        let Some(file) = &mut self.event_file else { return Ok(()) };
        let Some(gradients) = self.stepper.taken_histograms() else { return Ok(()) };
        charge(Account::Host, || -> Result<(), TrainError> {
            let mut parameters = Vec::new();
            let mut failed = None;
            self.stepper.model.visit(&mut |info, tensor| match Histogram::of_tensor(&tensor) {
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
