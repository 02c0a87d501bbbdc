use std::{collections::HashSet, sync::Arc, time::Instant};

use oomph_advice::{check_training, describe_policy, out_of_memory::PlannedTraining, planning::micro_batch};
use oomph_core::Split;
use oomph_engine::{
    session::{EpochCut, Session, backend, steps, steps_per_epoch},
    step::state::{frozen_elements, trainable_elements},
};
use oomph_memory::{Account, charge};
use oomph_runs::{
    Adapted, Event, Observer, Started, WeightsFile, environment,
    mlflow::{MlflowAbout, MlflowRun},
    state::{Checkpoint, TrainProgress},
    tensorboard::EventFile,
};

use super::{
    Begin, TrainOptions,
    failure::{REPORT, at_start},
    histograms::Histograms,
    training::{MemoryWatch, RunLog, Saves, Skipped, TrainClock, Training},
    warnings,
};
use crate::{
    LoadedWeights, Resume, Stop, TrainError,
    callback::{Callback, Caller},
    cleanup::{Cleaner, Moment},
    device_memory::Gauge,
    driver::Driver,
    leak_watch::LeakCheck,
    memory_log::MemoryLog,
    open::{check_weights, new_stepper},
    progress::{LossAccumulator, Stopwatch},
    ranks::broadcast_start,
    restore::restored,
    resume::StartPoint,
};

/// Plans the training and finds where it starts. Whatever can be refused is refused here, before there is a run directory.
fn prepare(session: &Session, options: &TrainOptions) -> Result<(PlannedTraining, StartPoint), TrainError> {
    check_training(session)?;
    if options.resume == Resume::No {
        check_weights(session)?;
    }
    let planned = match options.skip_plan_check {
        true => PlannedTraining::new(session)?,
        false => PlannedTraining::checked(session, options.report.clone())?,
    };
    Ok((planned, StartPoint::find(session, &options.resume)?))
}

/// Starts a training: takes the run directory, makes or restores the model, and reports the run.
pub(super) fn start<'a>(
    session: &'a Session,
    begin: Begin<'_>,
    observer: &'a mut dyn Observer,
    callback: &'a mut dyn Callback,
    stop: &'a Stop,
) -> Result<Training<'a>, TrainError> {
    let Begin { options, fitted, tensors } = begin;
    // The plan's allocations are the host's.
    let (planned, start) = charge(Account::Host, || prepare(session, options))?;
    let StartPoint { run, checkpoint, source, warnings: mut notices } = start;
    notices.extend(warnings::of_layout(session, planned.cut.as_ref()));
    // The recording begins before the other ranks make their models.
    let mut memory_log = MemoryLog::start_with(session, tensors);
    broadcast_start(session, checkpoint.as_ref(), Some(&run.path().join(REPORT)))?;
    let made = match &checkpoint {
        Some(checkpoint) => {
            restored(session, checkpoint).map(|(stepper, progress)| (stepper, progress, None))
        }
        None => new_stepper(session).map(|(stepper, weights)| (stepper, TrainProgress::default(), weights)),
    };
    let (mut stepper, mut progress, weights) =
        made.map_err(|error| at_start(session, error, memory_log.as_ref(), &run, checkpoint.as_ref()))?;
    fit(&mut progress, session);
    memory_log.iter_mut().for_each(|log| log.follow(&mut stepper));
    let cleaner = Cleaner::new(session);
    cleaner.at(Moment::Initialised);
    let mut training = Training {
        session,
        stop,
        caller: Caller::new(callback),
        pause_at: options.pause_at,
        log: RunLog { observer, run: Arc::new(run), last_line: None, event_file: None, mlflow: None },
        config: session.config.to_toml().into(),
        source: Arc::new(source),
        driver: Driver::leading(session, stepper, progress.step),
        losses: LossAccumulator::default(),
        clock: TrainClock {
            stopwatch: Stopwatch::default(),
            started: Instant::now(),
            earlier_seconds: progress.seconds,
        },
        saves: Saves {
            last: checkpoint.as_ref().map(|checkpoint| checkpoint.path().to_owned()),
            step: progress.step,
            writing: None,
            at: Instant::now(),
            changed: checkpoint.is_none(),
            warned: HashSet::new(),
        },
        progress,
        skipped: Skipped::default(),
        memory: MemoryWatch {
            log: memory_log,
            gauge: Gauge::new(&session.device, session.devices_here().len()),
            cleaner,
            leaks: LeakCheck::new(session),
            planned_peak_bytes: planned.peak_bytes,
            planned_time: planned.time,
        },
        histograms: Histograms::default(),
    };
    report(&mut training, checkpoint.as_ref(), weights, notices)?;
    let (step, log) = (training.progress.step, &mut training.log);
    let adapted = options.adapted.clone().map(|adapted| Event::Adapted(Adapted { step, ..adapted }));
    adapted.into_iter().chain(fitted.map(Event::Fitted)).try_for_each(|event| log.event(event))?;
    let last = [warnings::over_limit(session, planned.peak_bytes), warnings::already_done(session, step)];
    last.into_iter().flatten().try_for_each(|message| log.warn(message))?;
    Ok(training)
}

/// Fits the progress of a checkpoint, or of none, to the session.
fn fit(progress: &mut TrainProgress, session: &Session) {
    progress.batches_per_epoch = steps_per_epoch(session);
    progress.cut = Some(EpochCut::of(session));
    progress.early_stopping = progress.early_stopping.by(session.config.train.best);
}

/// Writes the run's configuration and environment, and reports the run and its warnings.
fn report(
    training: &mut Training<'_>,
    checkpoint: Option<&Checkpoint>,
    weights: Option<LoadedWeights>,
    notices: Vec<String>,
) -> Result<(), TrainError> {
    let session = training.session;
    // Leftovers of a crash may fill the disk, and its links may be wrong.
    let of_disk = charge(Account::Host, || training.log.run.checkpoints().recover())?;
    let file = weights.as_ref().map(|weights| WeightsFile { path: &weights.path, sha256: &weights.sha256 });
    training.log.run.describe(&training.config, &environment(&session.device_names(), file))?;
    if session.config.run.tensorboard {
        let (path, step) = (training.log.run.path(), training.progress.step);
        training.log.event_file = Some(charge(Account::Host, || EventFile::create(path, step))?);
    }
    if let Some(store) = &session.config.run.mlflow {
        let about = MlflowAbout {
            experiment: session.config.name(),
            config: &training.config,
            model: session.architecture.name(),
            source: &session.source_name(),
            first_step: training.progress.step,
        };
        let path = training.log.run.path();
        training.log.mlflow = Some(charge(Account::Host, || MlflowRun::open(store, path, about))?);
    }
    training.log.event(Event::Started(started(training, checkpoint)))?;
    training.warn_of_disk(of_disk)?;
    let model = &training.driver.stepper.model;
    let of_weights = match weights {
        Some(weights) => weights.notices,
        None if checkpoint.is_none() => {
            warnings::frozen_without_weights(session, model).into_iter().collect()
        }
        None => Vec::new(),
    };
    let of_source = charge(Account::Host, || session.source.notices());
    let others = of_source
        .into_iter()
        .chain(warnings::frozen_but_trained(model))
        .chain(warnings::without_nccl(session));
    let others = others.chain(warnings::lowered_limit(session));
    for message in notices.into_iter().chain(of_weights).chain(others) {
        training.log.warn(message)?;
    }
    Ok(())
}

/// The event that announces a run.
fn started(training: &Training<'_>, checkpoint: Option<&Checkpoint>) -> Started {
    let session = training.session;
    let (spec, time) = (session.spec(), training.memory.planned_time);
    Started {
        run_dir: training.log.run.path().to_owned(),
        model: session.architecture.name().to_owned(),
        parameters: trainable_elements(&training.driver.stepper),
        frozen_parameters: frozen_elements(&training.driver.stepper),
        weights: session.weights.clone().filter(|_| checkpoint.is_none()),
        source: session.source_name(),
        sample: format!("{}, {}", spec.input, spec.target),
        train_samples: session.source.len(Split::Train),
        test_samples: session.source.len(Split::Test),
        device: session.device_names(),
        strategy: session.config.device.sharing.name(),
        world_size: session.world_size(),
        batch: session.config.train.batch,
        batch_tokens: spec.input.tokens().map(|tokens| tokens.saturating_mul(session.config.train.batch)),
        micro_batch: micro_batch(session),
        policy: describe_policy(session, backend(session), session.limit_bytes),
        steps: steps(session),
        steps_per_epoch: training.progress.batches_per_epoch,
        first_step: training.progress.step,
        resumed_from: checkpoint.map(|checkpoint| checkpoint.path().to_owned()),
        metered: oomph_memory::is_installed(),
        planned_peak_bytes: training.memory.planned_peak_bytes,
        planned_step_seconds: time.map(|time| time.step_seconds),
        planned_seconds: time.map(|time| time.seconds_after(session, training.progress.step)),
        limit_bytes: session.limit_bytes,
        version: env!("CARGO_PKG_VERSION"),
    }
}
