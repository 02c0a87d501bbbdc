use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Instant};

use oomph_advice::{out_of_memory::Kept, planning::PlannedTime};
use oomph_core::Bytes;
use oomph_data::SourceRecord;
use oomph_engine::session::Session;
use oomph_memory::{Account, charge};
use oomph_runs::{
    Event, Observer, RunDirectory, RunError, mlflow::MlflowRun, state::TrainProgress, tensorboard::EventFile,
};

use super::{histograms::Histograms, writing::Writing};
use crate::{
    Stop, TrainError,
    callback::Caller,
    cleanup::Cleaner,
    device_memory::Gauge,
    driver::Driver,
    leak_watch::LeakCheck,
    memory_log::MemoryLog,
    progress::{LossAccumulator, Stopwatch},
};

/// A training between its start and its end.
pub(super) struct Training<'a> {
    pub(super) session: &'a Session,
    pub(super) stop: &'a Stop,
    pub(super) caller: Caller<'a>,
    /// Optimizer steps after which it pauses.
    pub(super) pause_at: Option<usize>,
    pub(super) log: RunLog<'a>,
    /// The resolved configuration, as TOML.
    pub(super) config: Arc<str>,
    /// The record of the data that each checkpoint gets.
    pub(super) source: Arc<SourceRecord>,
    pub(super) driver: Driver<'a>,
    pub(super) progress: TrainProgress,
    pub(super) losses: LossAccumulator,
    pub(super) clock: TrainClock,
    pub(super) saves: Saves,
    pub(super) skipped: Skipped,
    pub(super) memory: MemoryWatch,
    /// Histograms of gradients, if the configuration asks for them.
    pub(super) histograms: Histograms,
}

/// Where the events of a training go.
pub(super) struct RunLog<'a> {
    pub(super) observer: &'a mut dyn Observer,
    /// The thread that writes a checkpoint holds it too.
    pub(super) run: Arc<RunDirectory>,
    /// The step of the last line of metrics.
    pub(super) last_line: Option<usize>,
    /// The TensorBoard event file, if the configuration asks for it.
    pub(super) event_file: Option<EventFile>,
    /// The run in MLflow's file store, if the configuration asks for it.
    pub(super) mlflow: Option<MlflowRun>,
}

impl RunLog<'_> {
    /// Logs an event and passes it to the observer. The allocations of both are the host's.
    pub(super) fn event(&mut self, event: Event) -> Result<(), TrainError> {
        charge(Account::Host, || {
            self.run.log(&event)?;
            if let Some(file) = &mut self.event_file {
                file.event(&event)?;
            }
            if let Some(run) = &mut self.mlflow {
                run.event(&event)?;
            }
            self.observer.event(&event);
            Ok(())
        })
    }

    /// Logs the error that ended the run. It goes to nobody else: training returns it.
    pub(super) fn failed(&mut self, message: String) {
        // The error that ended the run matters more than a log that cannot be written.
        let _ = self.run.log(&Event::Error { message });
        let _ = self.mlflow.as_mut().map_or(Ok(()), MlflowRun::failed);
    }

    /// Flushes what is written beside the run directory's own log.
    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        self.event_file.as_ref().map_or(Ok(()), EventFile::flush)?;
        self.mlflow.as_mut().map_or(Ok(()), MlflowRun::flush)
    }

    pub(super) fn warn(&mut self, message: String) -> Result<(), TrainError> {
        self.event(Event::Warning { message })
    }
}

pub(super) struct TrainClock {
    pub(super) stopwatch: Stopwatch,
    pub(super) started: Instant,
    /// Seconds of training in earlier processes.
    pub(super) earlier_seconds: f64,
}

pub(super) struct Saves {
    /// The last checkpoint on disk.
    pub(super) last: Option<PathBuf>,
    /// Optimizer steps of the last checkpoint on disk.
    pub(super) step: usize,
    /// The checkpoint that is being written.
    pub(super) writing: Option<Writing>,
    /// When the state was last copied for a checkpoint.
    pub(super) at: Instant,
    /// Whether the state changed since it was last copied.
    pub(super) changed: bool,
    /// Warnings of the disk that were given.
    pub(super) warned: HashSet<String>,
}

impl Saves {
    /// What is kept where the current state cannot be saved for `reason`.
    pub(super) fn before(&self, reason: String) -> Kept {
        match &self.last {
            Some(checkpoint) => Kept::Before { step: self.step, checkpoint: checkpoint.clone(), reason },
            None => Kept::Nothing { reason },
        }
    }
}

#[derive(Default)]
pub(super) struct Skipped {
    /// Training samples that were skipped, each time that they came up.
    pub(super) samples: usize,
    /// Samples that a warning has named.
    pub(super) named: HashSet<String>,
}

pub(super) struct MemoryWatch {
    /// The newest allocations, if they are recorded.
    pub(super) log: Option<MemoryLog>,
    pub(super) gauge: Gauge,
    pub(super) cleaner: Cleaner,
    pub(super) leaks: LeakCheck,
    pub(super) planned_peak_bytes: Bytes,
    /// The planned time, if the speed of the device is known.
    pub(super) planned_time: Option<PlannedTime>,
}
