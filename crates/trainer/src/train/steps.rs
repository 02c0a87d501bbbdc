use std::time::Duration;

use oomph_config::{
    Config, Interval,
    sections::sharing::{Ddp, Shard},
};
use oomph_data::{Batch, SampleError};
use oomph_engine::session::steps;
use oomph_memory::{Account, charge};
use oomph_runs::{Ended, Tick, state::TrainProgress};

use super::training::Training;
use crate::{
    TrainError,
    batches::{next_batch, train_loader},
    cleanup::Moment,
    driver::DrivenStep,
    memory_log::MemoryLog,
    ranks::{RankCommand, command},
};

impl Training<'_> {
    /// Trains to the end. Returns why it ended.
    pub(super) fn run(&mut self) -> Result<Ended, TrainError> {
        self.clock.stopwatch.resume();
        let steps = steps(self.session);
        if self.progress.evaluation_due
            && let Some(ended) = self.evaluate()?
        {
            return Ok(ended);
        }
        if self.progress.early_stopping.is_over(self.session.config.train.patience) {
            return Ok(Ended::EarlyStopping);
        }
        while self.progress.step < steps {
            if self.is_to_pause() {
                return Ok(Ended::Paused);
            }
            if let Some(ended) = self.epoch(steps)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Complete)
    }

    /// Whether it has reached the step at which it was asked to pause.
    fn is_to_pause(&self) -> bool {
        self.pause_at.is_some_and(|step| self.progress.step >= step)
    }

    /// Trains for the rest of the current epoch. Returns why training ended, if it did.
    fn epoch(&mut self, steps: usize) -> Result<Option<Ended>, TrainError> {
        let mut loader = train_loader(self.session, self.progress.epoch, self.progress.batch);
        while self.progress.step < steps {
            let Some(batch) = next_batch(&mut loader) else { break };
            self.step(batch?, steps)?;
            if let Some(ended) = self.after_step(steps)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Warns of unreadable samples, once for each.
    pub(super) fn warn_of(&mut self, unreadable: &[SampleError]) -> Result<(), TrainError> {
        for error in unreadable {
            if self.skipped.named.insert(error.name.clone()) {
                self.log.warn(error.to_string())?;
            }
        }
        Ok(())
    }

    fn step(&mut self, batch: Batch, steps: usize) -> Result<(), TrainError> {
        self.skipped.samples += batch.skipped.len();
        self.warn_of(&batch.skipped)?;
        if let Some(log) = &mut self.memory.log {
            log.step_begins(&self.driver.stepper);
        }
        let mut next = self.progress.clone();
        next.count_step();
        self.take_histograms_next(&next);
        let norms = is_logged(&self.session.config, &next, steps);
        self.driver.stepper.measure_norms(norms);
        let lr = self.caller.lr(self.progress.step, self.driver.next_lr())?;
        let DrivenStep { number, outcome, .. } =
            self.driver.step_at(lr, batch, RankCommand::Step { lr: lr.into(), norms })?;
        let samples = outcome.samples;
        self.clock.stopwatch.count(samples);
        self.losses.add(number, lr, outcome);
        self.saves.changed = true;
        if self.progress.count_step() {
            self.memory.cleaner.at(Moment::Epoch);
        }
        charge(Account::Host, || self.log.observer.tick(Tick::Step { step: self.progress.step }));
        for event in self.memory.leaks.after_step(self.progress.step, samples) {
            self.log.event(event)?;
        }
        // The optimizer may have exceeded the limit. The step is done and can be saved.
        Ok(self.driver.stepper.layout().check_after(self.progress.step)?)
    }

    /// Does what is due after a step: reading the loss, evaluating, saving, ending.
    fn after_step(&mut self, steps: usize) -> Result<Option<Ended>, TrainError> {
        let config = &self.session.config;
        let last = self.progress.step == steps;
        if last || self.progress.step.is_multiple_of(config.run.log_every) {
            self.log_steps()?;
        }
        self.write_histograms()?;
        // The last step is always evaluated.
        let never = config.train.eval_every == Interval::Never;
        self.progress.evaluation_due = !never && (last || self.is_due(config.train.eval_every));
        if let Some(reason) = self.stop.reason() {
            self.save()?;
            return Ok(Some(reason.into()));
        }
        if self.progress.evaluation_due
            && let Some(ended) = self.evaluate()?
        {
            return Ok(Some(ended));
        }
        if self.caller.has_stopped {
            return Ok(Some(Ended::Callback));
        }
        if self.stop.take_save() || self.is_due(config.run.save_every) {
            self.save()?;
        }
        if self.stop.take_timeline() {
            self.show_timeline()?;
        }
        self.check_replicas()?;
        Ok((!last && self.is_to_pause()).then_some(Ended::Paused))
    }

    /// Compares the replicas, if that is due.
    fn check_replicas(&self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        // No two ranks have the same shards.
        let is_alike = |ddp: &&Ddp| !replicas.is_alone() && ddp.shard < Shard::Parameters;
        let ddp = self.session.config.device.sharing.ddp().filter(is_alike);
        if !ddp.is_some_and(|ddp| self.progress.ends(ddp.check_every)) {
            return Ok(());
        }
        command(replicas, RankCommand::Check)?;
        Ok(replicas.check(&self.driver.stepper.model, self.progress.step)?)
    }

    fn is_due(&self, interval: Interval) -> bool {
        match interval {
            Interval::Minutes(every) => self.saves.at.elapsed() >= Duration::from_secs_f64(every * 60.0),
            interval => self.progress.ends(interval),
        }
    }

    /// Writes the timeline that was asked for.
    fn show_timeline(&mut self) -> Result<(), TrainError> {
        self.log.run.check()?;
        let name = format!("memory-{:09}.html", self.progress.step);
        let page = |log: &MemoryLog| charge(Account::Host, || log.write_page(self.log.run.path(), &name));
        let message = match self.memory.log.as_ref().map(page).transpose() {
            Ok(Some(path)) => format!("the timeline of the bytes in use is in `{}`", path.display()),
            Ok(None) => "no allocations are recorded, so there is no timeline to write".into(),
            Err(error) => format!("the timeline `{name}` cannot be written: {error}"),
        };
        self.log.warn(message)
    }
}

/// Whether a line of metrics is due at `progress`, in a run of `steps` steps.
fn is_logged(config: &Config, progress: &TrainProgress, steps: usize) -> bool {
    progress.step == steps
        || progress.step.is_multiple_of(config.run.log_every)
        || progress.ends(config.train.eval_every)
}
