mod announce;
mod devices;
mod event_file;
mod failure;
mod placement;
mod restore;
mod saving;
mod warnings;

use failure::Left;
pub(crate) use restore::restored;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use oomph_config::{Interval, Sharing};
use oomph_core::{Bytes, Split, on_device};
use oomph_data::{Loader, SampleError, SourceRecord};
use oomph_memory::{Account, charge, record::StepKind, restart_peak};

use crate::{
    Adapted, Event, Observer, PlanOptions, PlannedCut, PlannedPart, Resume, RunDirectory, Schedule, Session,
    Stepper, Stop, Tick, TrainError, check_plan,
    cleanup::{Cleaner, Moment},
    device_failure,
    device_memory::Gauge,
    evaluate::evaluate_batches,
    event::{Done, Ended, EvalMetrics, StepMetrics},
    held::Held,
    leak_watch::LeakCheck,
    loading::next_batch,
    memory_log::MemoryLog,
    out_of_memory,
    parallel::{Order, guarded, train_on_replicas},
    plan,
    planning::check_parts,
    progress::{self, Stopwatch},
    resume::Start,
    state::{Checkpoint, Progress},
    tensorboard::EventFile,
};

/// What a training takes besides its session.
#[derive(Clone, Debug, Default)]
pub struct TrainOptions {
    /// Where it starts.
    pub resume: Resume,
    /// Whether it is tried even where the plan says that it cannot fit.
    pub skip_plan_check: bool,
    /// How the session was changed so that it fits: for the run's log.
    pub adapted: Option<Adapted>,
    /// Where the report is written of a training that is refused, and has no run directory to take it.
    pub report: Option<PathBuf>,
}

/// Trains until the configured end, until `stop` asks for it, or until evaluation stops improving.
///
/// Whatever the end, the state is saved: a run stopped at any step and resumed ends with the same bytes as one never
/// stopped, on the CPU.
///
/// In a session that was [opened together](Session::open_together) it is for rank 0; the others [follow](crate::follow).
///
/// It is planned first, and refused where it cannot fit, unless the options say otherwise. Where memory runs out the
/// error has a report, which is written into the run directory too; on the CPU the state of the last finished step is saved.
///
/// # Errors
/// Where data, model, task or disk fail, where memory runs out, and where the loss is no finite number.
pub fn train(
    session: &Session,
    options: &TrainOptions,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Done, TrainError> {
    // Of this training: in the same process others may have been before it.
    (0..session.devices_here().len()).for_each(|device| on_device(device, restart_peak));
    // What all devices of this process note.
    let held = Held::default();
    match session.config.device.sharing {
        _ if !session.replicas.is_alone() => {
            guarded(session, |session| lead(session, options, observer, (stop, &mut None), held))
        }
        Sharing::Ddp(_) => {
            let mut left = None;
            let noted = MemoryLog::is_wanted(session).then(|| held.clone());
            let lead = |session: &Session| lead(session, options, observer, (stop, &mut left), held.clone());
            train_on_replicas(session, stop, noted, lead).map_err(|error| failure::of_rank(error, left))
        }
        _ => lead(session, options, observer, (stop, &mut None), held),
    }
}

/// Trains on one device, or as the first of several replicas. Where it fails the run directory is `left` with what is
/// in it of the training.
fn lead(
    session: &Session,
    options: &TrainOptions,
    observer: &mut dyn Observer,
    (stop, left): (&Stop, &mut Option<Left>),
    held: Held,
) -> Result<Done, TrainError> {
    charge(Account::Device, || {
        let mut training = Training::open(session, options, (observer, stop), held)?;
        match device_failure::caught(|| training.run()) {
            Ok(ended) => training.finish(ended),
            Err(error) => {
                let error = training.explain(error);
                training.log_failure(&error);
                *left = Some(training.left());
                Err(error)
            }
        }
    })
}

/// What is known before there is a run directory.
struct Prepared {
    planned_peak_bytes: Bytes,
    /// Of a model that lies on several devices.
    cut: Option<PlannedCut>,
    start: Start,
}

/// What can be known and refused before there is a run directory: the planned peak, and where training starts.
fn prepare(session: &Session, options: &TrainOptions) -> Result<Prepared, TrainError> {
    session.check_training()?;
    if options.resume == Resume::No {
        session.check_weights()?;
    }
    let cut = check_parts(session, !options.skip_plan_check)?;
    let planned_peak_bytes = if let Some(cut) = &cut {
        cut.parts.iter().map(PlannedPart::planned_peak_bytes).max().unwrap_or_default()
    } else if options.skip_plan_check {
        plan(session, PlanOptions::default())?.peak().categories.total()
    } else {
        check_plan(session, options.report.clone())?
    };
    Ok(Prepared { planned_peak_bytes, cut, start: Start::find(session, &options.resume)? })
}

/// The other replicas start where this one does; what runs out of memory on one of them is reported beside `report`,
/// where there is such a path.
pub(crate) fn tell_where_to_start(
    session: &Session,
    checkpoint: Option<&Checkpoint>,
    report: Option<&Path>,
) -> Result<(), TrainError> {
    if session.replicas.is_alone() {
        return Ok(());
    }
    for path in [checkpoint.map(Checkpoint::path), report] {
        let path = path.map(|path| path.display().to_string());
        session.replicas.told(path.as_deref())?;
    }
    Ok(())
}

struct Training<'a> {
    session: &'a Session,
    observer: &'a mut dyn Observer,
    stop: &'a Stop,
    run: RunDirectory,
    /// For TensorBoard, where it is wanted.
    event_file: Option<EventFile>,
    config: String,
    /// What is needed of the data to ask the model.
    source: SourceRecord,
    stepper: Stepper,
    schedule: Schedule,
    progress: Progress,
    interval: progress::Interval,
    stopwatch: Stopwatch,
    started: Instant,
    /// Seconds of training before this process.
    earlier_seconds: f64,
    last_save: Instant,
    /// The last checkpoint.
    saved: Option<PathBuf>,
    /// The optimizer steps that it has.
    saved_step: usize,
    skipped_samples: usize,
    /// Unreadable samples that were named.
    named: HashSet<String>,
    /// Whether there is something that the last checkpoint does not have.
    changed: bool,
    /// The newest allocations, where they are recorded.
    memory_log: Option<MemoryLog>,
    gauge: Gauge,
    cleaner: Cleaner,
    /// Compares the steps' memory.
    leaks: LeakCheck,
    planned_peak_bytes: Bytes,
}

impl<'a> Training<'a> {
    fn open(
        session: &'a Session,
        options: &TrainOptions,
        (observer, stop): (&'a mut dyn Observer, &'a Stop),
        held: Held,
    ) -> Result<Self, TrainError> {
        // What prepares training is the program's; and what can be refused is, before there is a run directory that
        // nothing would ever be in.
        let Prepared { planned_peak_bytes, cut, start } =
            charge(Account::Host, || prepare(session, options))?;
        let Start { run, checkpoint, mut warnings } = start;
        warnings.extend(placement::warnings(session, cut.as_ref()));
        drop(cut);
        // Other ranks are recorded from their model on too.
        let mut memory_log = MemoryLog::start_with(session, held);
        tell_where_to_start(session, checkpoint.as_ref(), Some(&run.path().join(failure::REPORT)))?;
        let made = match &checkpoint {
            Some(checkpoint) => restored(session, checkpoint),
            None => Stepper::new(session).map(|stepper| (stepper, Progress::default())),
        };
        let (mut stepper, mut progress) = made.map_err(|error| {
            failure::at_start(session, error, memory_log.as_ref(), &run, checkpoint.as_ref())
        })?;
        progress.batches_per_epoch = session.steps_per_epoch();
        progress.cut = Some(session.epoch_cut());
        if let Some(log) = &mut memory_log {
            log.follow(&mut stepper);
        }
        let cleaner = Cleaner::new(session);
        cleaner.at(Moment::Initialised);
        let mut training = Self {
            session,
            observer,
            stop,
            run,
            event_file: None,
            config: session.config.to_toml(),
            source: SourceRecord::of(session.source.as_ref()),
            stepper,
            schedule: session.schedule(),
            earlier_seconds: progress.seconds,
            saved: checkpoint.as_ref().map(|checkpoint| checkpoint.path().to_owned()),
            saved_step: progress.step,
            changed: checkpoint.is_none(),
            progress,
            interval: progress::Interval::default(),
            stopwatch: Stopwatch::new(),
            started: Instant::now(),
            last_save: Instant::now(),
            skipped_samples: 0,
            named: HashSet::new(),
            memory_log,
            gauge: Gauge::new(&session.device, session.devices_here().len()),
            cleaner,
            leaks: LeakCheck::new(session),
            planned_peak_bytes,
        };
        training.describe(checkpoint.as_ref(), warnings)?;
        if let Some(adapted) = options.adapted.clone() {
            let step = training.progress.step;
            training.tell(Event::Adapted(Adapted { step, ..adapted }))?;
        }
        training.warn_of_the_limit()?;
        training.warn_of_the_end()?;
        Ok(training)
    }

    /// What logging and showing allocate is the host's.
    fn tell(&mut self, event: Event) -> Result<(), TrainError> {
        charge(Account::Host, || {
            self.run.log(&event)?;
            if let Some(file) = &mut self.event_file {
                file.event(&event)?;
            }
            self.observer.event(&event);
            Ok(())
        })
    }

    /// Epochs until the end; how it ended.
    fn run(&mut self) -> Result<Ended, TrainError> {
        self.stopwatch.resume();
        let steps = self.session.steps();
        if self.progress.evaluation_due
            && let Some(ended) = self.evaluate()?
        {
            return Ok(ended);
        }
        if self.progress.early_stopping.is_over(self.session.config.train.patience) {
            return Ok(Ended::EarlyStopping);
        }
        while self.progress.step < steps {
            if let Some(ended) = self.epoch(steps)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Complete)
    }

    /// The rest of the current epoch; how training ended, if it did.
    fn epoch(&mut self, steps: usize) -> Result<Option<Ended>, TrainError> {
        let Self { session, progress, .. } = self;
        let (epoch, batch, seed) = (progress.epoch, progress.batch, session.config.train.seed);
        let order = session.train_order();
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, order, epoch, batch, Some(seed), &session.loader)
        });
        while self.progress.step < steps {
            let Some(batch) = next_batch(&mut loader) else { break };
            self.step(batch?)?;
            if let Some(ended) = self.after_step(steps)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Names unreadable samples, each once.
    fn warn_of(&mut self, unreadable: &[SampleError]) -> Result<(), TrainError> {
        for error in unreadable {
            if self.named.insert(error.name.clone()) {
                self.tell(Event::Warning { message: error.to_string() })?;
            }
        }
        Ok(())
    }

    fn step(&mut self, batch: oomph_data::Batch) -> Result<(), TrainError> {
        self.skipped_samples += batch.skipped.len();
        self.warn_of(&batch.skipped)?;
        let step = self.progress.step;
        let lr = self.schedule.lr(step);
        if let Some(log) = &mut self.memory_log {
            log.step_begins(&self.stepper);
        }
        self.session.mark_step(step as u64 + 1, StepKind::Train);
        self.session.replicas.order(Order::Step)?;
        self.stepper.take_histograms_next(self.histograms_are_due_next());
        let outcome = self.stepper.step_unchecked(batch, step, lr, self.session.task.as_ref())?;
        let samples = outcome.samples;
        self.stopwatch.count(samples);
        self.interval.add(step + 1, lr, outcome);
        self.changed = true;
        if self.progress.count_step() {
            self.cleaner.at(Moment::Epoch);
        }
        charge(Account::Host, || self.observer.tick(Tick::Step { step: self.progress.step }));
        for event in self.leaks.after_step(self.progress.step, samples) {
            self.tell(event)?;
        }
        // What the optimizer took above the limit: the step is done, and can be saved.
        out_of_memory::check()
    }

    /// What is due after a step: reading the loss, evaluating, saving, ending.
    fn after_step(&mut self, steps: usize) -> Result<Option<Ended>, TrainError> {
        let config = &self.session.config;
        let last = self.progress.step == steps;
        if last || self.progress.step.is_multiple_of(config.run.log_every) {
            self.log()?;
        }
        self.write_histograms()?;
        // The end is evaluated even where it falls between two evaluations.
        let never = config.train.eval_every == Interval::Never;
        self.progress.evaluation_due = !never && (last || self.is_due(config.train.eval_every));
        if let Some(reason) = self.stop.reason() {
            self.save(false)?;
            return Ok(Some(reason.into()));
        }
        if self.progress.evaluation_due
            && let Some(ended) = self.evaluate()?
        {
            return Ok(Some(ended));
        }
        if self.stop.take_save() || self.is_due(config.run.save_every) {
            self.save(false)?;
        }
        if self.stop.take_timeline() {
            self.show_timeline()?;
        }
        self.check_replicas()?;
        Ok(None)
    }

    /// Compares the replicas, where it is time for it.
    fn check_replicas(&self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        match &self.session.config.device.sharing {
            Sharing::Ddp(ddp) if !replicas.is_alone() && self.progress.ends(ddp.check_every) => {
                replicas.order(Order::Check)?;
                replicas.check(&self.stepper.model, self.progress.step)
            }
            _ => Ok(()),
        }
    }

    fn is_due(&self, interval: Interval) -> bool {
        match interval {
            Interval::Minutes(every) => self.last_save.elapsed() >= Duration::from_secs_f64(every * 60.0),
            interval => self.progress.ends(interval),
        }
    }

    /// Writes the timeline that somebody asked for.
    fn show_timeline(&mut self) -> Result<(), TrainError> {
        let name = format!("memory-{:09}.html", self.progress.step);
        let page = |log: &MemoryLog| charge(Account::Host, || log.write_page(self.run.path(), &name));
        let message = match self.memory_log.as_ref().map(page).transpose() {
            Ok(Some(path)) => format!("what was in use is shown in `{}`", path.display()),
            Ok(None) => "no allocations are recorded, so there is no timeline to write".into(),
            Err(error) => format!("the timeline `{name}` cannot be written: {error}"),
        };
        self.tell(Event::Warning { message })
    }

    /// Reads the losses since the last time, which waits for the device.
    fn log(&mut self) -> Result<(), TrainError> {
        let Some(means) = self.read_losses()? else { return Ok(()) };
        let memory = self.gauge.look();
        if let Some(pools) = memory.pools {
            let (reserved, in_use) = (pools.reserved_bytes, pools.in_use_bytes);
            self.cleaner.at(Moment::Logged { reserved, in_use });
        }
        let step_peak_bytes = self.memory_log.as_mut().and_then(|log| log.last_step(&self.stepper));
        let Progress { step, .. } = self.progress;
        let metrics = StepMetrics {
            step,
            epoch: self.epoch_of_last_step(),
            loss: means.loss,
            accuracy: means.accuracy,
            lr: self.schedule.lr(step.saturating_sub(1)),
            loss_scale: self.stepper.loss_scale.map(|loss_scale| loss_scale.scale()),
            skipped_steps: self.skipped_steps(),
            samples_per_second: self.stopwatch.lap(),
            in_use_bytes: memory.in_use_bytes,
            peak_in_use_bytes: memory.peak_in_use_bytes,
            step_peak_bytes,
            reserved_bytes: memory.pools.map(|pools| pools.reserved_bytes),
            pages_peak_bytes: memory.pools.and_then(|pools| pools.pages_peak_bytes),
            seconds: self.started.elapsed().as_secs_f64(),
        };
        self.tell(Event::Step(metrics))
    }

    /// # Errors
    /// [`TrainError::NonFiniteLoss`]: nothing that came of such a loss is saved, since every save reads first.
    fn read_losses(&mut self) -> Result<Option<progress::Means>, TrainError> {
        let replicas = &self.session.replicas;
        if !self.interval.is_empty() {
            replicas.order(Order::Losses)?;
        }
        match self.interval.read(replicas)? {
            Ok(means) => {
                self.progress.loss = means.map(|means| means.loss).or(self.progress.loss);
                Ok(means)
            }
            Err(progress::NonFinite { step, loss, lr }) => {
                Err(TrainError::NonFiniteLoss { step, loss, lr, checkpoint: self.saved.clone() })
            }
        }
    }

    /// Steps whose gradients were not finite, where there is a loss scale that keeps them from counting.
    fn skipped_steps(&self) -> Option<usize> {
        self.stepper.loss_scale.map(|loss_scale| loss_scale.skipped_steps())
    }

    /// Epoch of the last step, from 1.
    fn epoch_of_last_step(&self) -> usize {
        self.progress.epoch + usize::from(self.progress.batch > 0)
    }

    /// Evaluates, and saves where it was the best; how training ended, if it did.
    fn evaluate(&mut self) -> Result<Option<Ended>, TrainError> {
        // A loss that is not finite is found here, before it is evaluated.
        self.log()?;
        self.stopwatch.pause();
        let mut observer = self.leaks.watching(Some(self.progress.step), self.observer);
        self.session.replicas.order(Order::Evaluate)?;
        self.session.replicas.share_statistics(&mut self.stepper.model)?;
        self.cleaner.at(Moment::Evaluation);
        let evaluation =
            evaluate_batches(self.session, self.stepper.lying(), usize::MAX, &mut observer, self.stop);
        self.cleaner.at(Moment::Evaluation);
        // The observer knows them already.
        for event in self.leaks.take_told() {
            charge(Account::Host, || self.run.log(&event))?;
        }
        let Some(evaluation) = evaluation? else {
            // Asked to stop before it was done: `evaluation_due` stays, and it is done on resume.
            self.save(false)?;
            return Ok(self.stop.reason().map(Ended::from));
        };
        self.warn_of(&evaluation.skipped)?;
        let train = &self.session.config.train;
        let step = self.progress.step;
        let best = self.progress.early_stopping.observe(evaluation.loss, step, train.min_delta);
        self.changed = true;
        self.progress.evaluation_due = false;
        self.progress.eval_loss = Some(evaluation.loss);
        self.progress.eval_accuracy = evaluation.accuracy;
        self.tell(Event::Eval(EvalMetrics {
            step,
            epoch: self.epoch_of_last_step(),
            eval_loss: evaluation.loss,
            eval_accuracy: evaluation.accuracy,
            eval_perplexity: evaluation.perplexity,
            samples: evaluation.samples,
            best,
            eval_seconds: evaluation.seconds,
        }))?;
        if best && self.session.config.run.save_every != Interval::Never {
            self.save(true)?;
        }
        self.stopwatch.resume();
        let over = self.progress.early_stopping.is_over(train.patience);
        Ok(over.then_some(Ended::EarlyStopping))
    }

    fn finish(mut self, ended: Ended) -> Result<Done, TrainError> {
        // Where nothing was saved in between, the end may be the best.
        let best = self.changed && self.progress.early_stopping.best_step == Some(self.progress.step);
        self.save(best)?;
        self.session.replicas.order(Order::End)?;
        let progress = self.progress.clone();
        let checkpoint = self.saved.take().unwrap_or_default();
        let perplexed = self.session.task.has_perplexity(&self.session.spec().target);
        let done = Done {
            step: progress.step,
            loss: progress.loss,
            eval_loss: progress.eval_loss,
            eval_accuracy: progress.eval_accuracy,
            eval_perplexity: progress.eval_loss.filter(|_| perplexed).map(f64::exp),
            best_eval_loss: progress.early_stopping.best_loss,
            best_step: progress.early_stopping.best_step,
            samples_per_second: self.stopwatch.total(),
            peak_in_use_bytes: self.gauge.look().peak_in_use_bytes,
            devices: self.devices(),
            skipped_samples: self.skipped_samples,
            skipped_steps: self.skipped_steps(),
            run_dir: self.run.path().to_owned(),
            checkpoint,
            seconds: self.started.elapsed().as_secs_f64(),
            ended,
        };
        self.tell(Event::Done(done.clone()))?;
        Ok(done)
    }
}
