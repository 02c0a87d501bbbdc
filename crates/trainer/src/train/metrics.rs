use oomph_config::{DeviceName, Interval, sections::eval_metric::EvalMetric};
use oomph_data::Targets;
use oomph_engine::{session::Session, step::Stepper};
use oomph_memory::{Account, charge};
use oomph_runs::{
    DeviceMetrics, Done, Ended, EvalMetrics, Event, StepMetrics, StepNorms, Throughput,
    state::{StepSums, TrainProgress},
};

use super::training::Training;
use crate::{
    TrainError,
    cleanup::Moment,
    evaluate::{PredictionHook, bits_per_byte},
    progress::NonFinite,
    ranks::{RankCommand, command},
    steadier::Steadier,
};

impl Training<'_> {
    /// Reads the losses since the last reading, which waits for the device, and logs the metrics of the steps since the last
    /// multiple of `run.log_every`: neither a stop nor a save nor an evaluation changes the means of a line.
    pub(super) fn log_steps(&mut self) -> Result<(), TrainError> {
        self.read_losses()?;
        // Lines are in the same order in each run, however fast the disk is.
        self.finish_writing()?;
        let TrainProgress { step, window, .. } = self.progress;
        if step.is_multiple_of(self.session.config.run.log_every) {
            self.progress.window = StepSums::default();
        }
        let Some(loss) = window.mean_loss().filter(|_| self.log.last_line != Some(step)) else {
            return Ok(());
        };
        self.log.last_line = Some(step);
        let memory = self.memory.gauge.look();
        if let Some(pools) = memory.pools {
            let (reserved, in_use) = (pools.reserved_bytes, pools.in_use_bytes);
            self.memory.cleaner.at(Moment::Logged { reserved, in_use });
        }
        let step_peak_bytes = self.memory.log.as_mut().and_then(|log| log.last_step(&self.driver.stepper));
        let metrics = StepMetrics {
            step,
            epoch: self.progress.last_epoch(),
            loss,
            accuracy: window.accuracy(),
            lr: self.driver.last_lr,
            norms: self
                .driver
                .stepper
                .norms()
                .map(|norms| StepNorms { gradient_norm: norms.gradient, parameter_norm: norms.parameter }),
            loss_scale: self.driver.stepper.loss_scale.map(|loss_scale| loss_scale.scale()),
            skipped_steps: self.skipped_steps(),
            speed: throughput(self.session, self.clock.stopwatch.lap()),
            in_use_bytes: memory.in_use_bytes,
            peak_in_use_bytes: memory.peak_in_use_bytes,
            step_peak_bytes,
            reserved_bytes: memory.pools.map(|pools| pools.reserved_bytes),
            pages_peak_bytes: memory.pools.and_then(|pools| pools.pages_peak_bytes),
            seconds: self.clock.started.elapsed().as_secs_f64(),
        };
        self.hooked_event(Event::Step(metrics))
    }

    /// Logs an event that the callback may end the training after.
    fn hooked_event(&mut self, event: Event) -> Result<(), TrainError> {
        self.caller.event(&event);
        self.log.event(event)?;
        self.caller.warning().map_or(Ok(()), |message| self.log.warn(message))
    }

    /// Adds the losses since the last reading to the sums in the window.
    ///
    /// # Errors
    /// [`TrainError::NonFiniteLoss`]. Every save reads the losses first, so the results of such a loss are never saved.
    pub(super) fn read_losses(&mut self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        if !self.losses.is_empty() {
            command(replicas, RankCommand::Losses)?;
        }
        match self.losses.read(replicas, &mut self.progress.window)? {
            Ok(()) => {
                self.progress.loss = self.progress.window.mean_loss().or(self.progress.loss);
                Ok(())
            }
            Err(NonFinite { step, loss, lr }) => {
                // The loss is the error to report.
                let _ = self.finish_writing();
                let checkpoint = self.saves.last.clone();
                let steadier = Steadier::of(&self.session.config);
                Err(TrainError::NonFiniteLoss { step, loss, lr, checkpoint, steadier })
            }
        }
    }

    /// Steps of the run that were skipped, if there is a loss scale.
    fn skipped_steps(&self) -> Option<usize> {
        self.driver.stepper.loss_scale.map(|loss_scale| loss_scale.skipped_steps())
    }

    /// Evaluates, and saves the best model. Returns why training ended, if it did.
    pub(super) fn evaluate(&mut self) -> Result<Option<Ended>, TrainError> {
        // A loss that is not finite ends the run before the evaluation.
        self.log_steps()?;
        self.clock.stopwatch.pause();
        let mut observer = self.memory.leaks.watching(Some(self.progress.step), self.log.observer);
        self.memory.cleaner.at(Moment::Evaluation);
        let wants_predictions = self.caller.wants_predictions();
        let caller = &mut self.caller;
        let mut predictions = |outputs: &[f32], targets: &Targets| caller.predictions(outputs, targets);
        let predictions: Option<&mut PredictionHook<'_>> =
            wants_predictions.then_some(&mut predictions as &mut PredictionHook<'_>);
        let evaluation = self.driver.evaluate(usize::MAX, &mut observer, predictions, self.stop);
        self.memory.cleaner.at(Moment::Evaluation);
        // The observer has them already.
        for event in std::mem::take(&mut self.memory.leaks.reported) {
            charge(Account::Host, || self.log.run.log(&event))?;
        }
        let Some(evaluation) = evaluation? else {
            // Stopped before its end: `evaluation_due` stays set, and the resumed run evaluates.
            self.save()?;
            return Ok(self.stop.reason().map(Ended::from));
        };
        self.warn_of(&evaluation.skipped)?;
        let train = &self.session.config.train;
        let step = self.progress.step;
        let value = evaluation.value(train.best).ok_or(TrainError::NotMeasured { metric: train.best })?;
        let best = self.progress.early_stopping.observe(value, step, train.min_delta);
        self.saves.changed = true;
        self.progress.evaluation_due = false;
        self.progress.eval_loss = Some(evaluation.loss);
        self.progress.eval_accuracy = evaluation.accuracy;
        let measures = self.caller.measures(&evaluation);
        self.hooked_event(Event::Eval(EvalMetrics {
            step,
            epoch: self.progress.last_epoch(),
            eval_loss: evaluation.loss,
            eval_accuracy: evaluation.accuracy,
            eval_perplexity: evaluation.perplexity,
            eval_bits_per_byte: evaluation.bits_per_byte,
            scores: evaluation.eval_scores(),
            samples: evaluation.samples,
            averaged: self.driver.stepper.average.as_ref().is_some_and(|it| it.model().is_some()),
            best,
            eval_seconds: evaluation.seconds,
            measures,
        }))?;
        if best && self.session.config.run.save_every != Interval::Never {
            self.save()?;
        }
        self.clock.stopwatch.resume();
        if self.caller.has_stopped {
            return Ok(Some(Ended::Callback));
        }
        let over = self.progress.early_stopping.is_over(train.patience);
        Ok(over.then_some(Ended::EarlyStopping))
    }

    /// Saves the last state and reports the end.
    pub(super) fn finish(mut self, ended: Ended) -> Result<Done, TrainError> {
        self.save()?;
        self.finish_writing()?;
        command(&self.session.replicas, RankCommand::End)?;
        let progress = self.progress.clone();
        let checkpoint = self.saves.last.take().unwrap_or_default();
        let best = progress.early_stopping;
        let perplexed = self.session.task.has_perplexity(&self.session.spec().target);
        let done = Done {
            step: progress.step,
            loss: progress.loss,
            eval_loss: progress.eval_loss,
            eval_accuracy: progress.eval_accuracy,
            eval_perplexity: progress.eval_loss.filter(|_| perplexed).map(f64::exp),
            eval_bits_per_byte: progress.eval_loss.and_then(|loss| bits_per_byte(self.session, loss)),
            best_metric: best.metric,
            best_value: best.best,
            best_eval_loss: best.best.filter(|_| best.metric == EvalMetric::Loss),
            best_step: best.best_step,
            speed: throughput(self.session, self.clock.stopwatch.total()),
            peak_in_use_bytes: self.memory.gauge.look().peak_in_use_bytes,
            peak_reserved_bytes: self.memory.gauge.peak_reserved_bytes,
            devices: device_metrics(self.session, &self.driver.stepper),
            skipped_samples: self.skipped.samples,
            skipped_steps: self.skipped_steps(),
            run_dir: self.log.run.path().to_owned(),
            checkpoint,
            seconds: self.clock.started.elapsed().as_secs_f64(),
            ended,
        };
        self.log.event(Event::Done(done.clone()))?;
        Ok(done)
    }
}

/// The speed of so many samples per second.
fn throughput(session: &Session, samples_per_second: f64) -> Throughput {
    let tokens = session.spec().input.tokens();
    Throughput {
        samples_per_second,
        tokens_per_second: tokens.map(|tokens| tokens as f64 * samples_per_second),
    }
}

/// The metrics of each device of this process; nothing for one device.
fn device_metrics(session: &Session, stepper: &Stepper) -> Vec<DeviceMetrics> {
    let names = session.devices_here();
    if names.len() < 2 {
        return Vec::new();
    }
    let parts = stepper.device_use();
    let metrics = names.iter().enumerate().map(|(index, name)| {
        let is_measured = oomph_memory::is_installed() && *name == DeviceName::Cpu;
        let part = parts.get(index);
        DeviceMetrics {
            device: name.to_string(),
            stages: part.and_then(|part| part.stages.clone()).map(|stages| {
                let name = |stage: usize| session.stages[stage].clone();
                [name(stages.start), name(stages.end - 1)]
            }),
            peak_in_use_bytes: is_measured.then(|| oomph_memory::read_device(index).peak_in_use_bytes),
            idle_share: part.map(|part| part.idle_share),
            // The figures of the other ranks are unknown here.
            all_reduce_seconds: stepper.all_reduce_seconds().filter(|_| index == 0),
        }
    });
    metrics.collect()
}
