use std::path::{Path, PathBuf};

use oomph_core::Split;
use oomph_data::{Batch, Loader};
use oomph_memory::{Account, charge, record::StepKind};

use super::Order;
use crate::{
    Quiet, Schedule, Session, Stepper, Stop, TrainError,
    evaluate::evaluate_batches,
    held::Held,
    loading::next_batch,
    measure::last_batch,
    memory_log::MemoryLog,
    out_of_memory::{Circumstances, Subject, explain},
    progress::Interval,
    state::{Checkpoint, Progress},
    train::restored,
};

/// A rank that is not 0: it has a replica of its own, and does what rank 0 orders.
pub(super) struct Follower<'a> {
    session: &'a Session,
    stop: &'a Stop,
    log: &'a mut Watched,
    stepper: Stepper,
    schedule: Schedule,
    progress: Progress,
    /// Of the epoch that is being trained.
    loader: Option<Loader>,
    interval: Interval,
}

/// What is known of this rank's memory, and where it is written when it runs out.
struct Watched {
    log: Option<MemoryLog>,
    /// Rank 0's path, where it wants reports.
    report: Option<PathBuf>,
    /// Steps done.
    step: usize,
}

impl<'a> Follower<'a> {
    /// Starts where rank 0 does: it told the checkpoint, if there is one.
    fn start(
        session: &'a Session,
        stop: &'a Stop,
        checkpoint: &str,
        log: &'a mut Watched,
    ) -> Result<Self, TrainError> {
        let (mut stepper, mut progress) = match checkpoint {
            "" => (Stepper::new(session)?, Progress::default()),
            path => {
                let checkpoint = charge(Account::Host, || Checkpoint::open(Path::new(path)))?;
                restored(session, &checkpoint)?
            }
        };
        if let Some(log) = &mut log.log {
            log.follow(&mut stepper);
        }
        log.step = progress.step;
        progress.batches_per_epoch = session.steps_per_epoch();
        let (schedule, interval) = (session.schedule(), Interval::default());
        Ok(Self { session, stop, log, stepper, schedule, progress, loader: None, interval })
    }

    /// Until rank 0 says that it is over.
    fn run(&mut self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        loop {
            match replicas.next_order()? {
                Order::Step => self.step()?,
                Order::LastBatch => self.rehearse_last_batch()?,
                // Rank 0 sees the same figures, and says what is wrong with them.
                Order::Losses => drop(self.interval.read(replicas)?),
                Order::Evaluate => self.evaluate(usize::MAX)?,
                Order::Glance => {
                    let batches = replicas.told(None)?.parse();
                    self.evaluate(batches.map_err(|_| TrainError::OtherVersion { rank: replicas.rank() })?)?;
                }
                Order::Carried => {
                    if let Some(carried) = &self.stepper.carried {
                        replicas.gather_carried(carried)?;
                    }
                }
                Order::Check => replicas.check(&self.stepper.model, self.progress.step)?,
                Order::Wait => {}
                Order::End => return Ok(()),
            }
        }
    }

    fn step(&mut self) -> Result<(), TrainError> {
        let (session, Progress { epoch, batch, .. }) = (self.session, self.progress.clone());
        let loader = self.loader.get_or_insert_with(|| {
            charge(Account::Host, || {
                let (source, order) = (session.source.clone(), session.train_order());
                let seed = Some(session.config.train.seed);
                Loader::start(source, Split::Train, order, epoch, batch, seed, &session.loader)
            })
        });
        // All ranks have as many batches, and rank 0 has one.
        let Some(batch) = next_batch(loader) else { return Ok(()) };
        self.train(batch?)?;
        self.log.step += 1;
        if self.progress.count_step() {
            self.loader = None;
        }
        Ok(())
    }

    /// What rank 0 does in a rehearsal: the last batch of an epoch, out of turn.
    fn rehearse_last_batch(&mut self) -> Result<(), TrainError> {
        last_batch(self.session)?.map_or(Ok(()), |batch| self.train(batch))
    }

    fn train(&mut self, batch: Batch) -> Result<(), TrainError> {
        let step = self.progress.step;
        self.session.mark_step(step as u64 + 1, StepKind::Train);
        let lr = self.schedule.lr(step);
        let outcome = self.stepper.step(batch, step, lr, self.session.task.as_ref())?;
        self.interval.add(step + 1, lr, outcome);
        Ok(())
    }

    fn evaluate(&mut self, most: usize) -> Result<(), TrainError> {
        self.session.replicas.share_statistics(&mut self.stepper.model)?;
        evaluate_batches(self.session, self.stepper.lying(), most, &mut Quiet, self.stop)?;
        Ok(())
    }
}

impl Watched {
    /// Adds to an error what was held where memory ran out. What is left of the training rank 0 knows.
    fn explain(&self, session: &Session, error: TrainError) -> TrainError {
        let Some(report) = &self.report else { return error };
        let TrainError::OutOfMemory(mut error) = error else { return error };
        let in_step = error.phase.is_in_step() && !error.in_evaluation;
        error.at_step(self.step + usize::from(in_step));
        let mut directory = report.clone().into_os_string();
        directory.push(format!("-rank-{}", session.replicas.rank()));
        let known = Circumstances {
            subject: Subject::Training,
            device: 0,
            seen: self.log.as_ref().and_then(|log| log.seen(&error)),
            reserved_bytes: None,
            run: None,
            directory: Some(directory.into()),
        };
        explain(session, &mut error, known);
        TrainError::OutOfMemory(error)
    }
}

/// Trains as rank 0 orders, until it says that it is over. Notes which tensors are what, where somebody wants to know.
///
/// # Errors
/// Where this rank fails, or another did. Where memory ran out it has a report.
pub(super) fn follow(session: &Session, stop: &Stop, held: Option<Held>) -> Result<(), TrainError> {
    charge(Account::Device, || {
        let replicas = &session.replicas;
        let (checkpoint, report) = (replicas.told(None)?, replicas.told(None)?);
        let report = Some(report).filter(|report| !report.is_empty()).map(PathBuf::from);
        let log = MemoryLog::join(session, held.unwrap_or_default());
        let mut log = Watched { log, report, step: 0 };
        let followed =
            Follower::start(session, stop, &checkpoint, &mut log).and_then(|mut follower| follower.run());
        // Before rank 0 is told, and ends the recording.
        followed.map_err(|error| log.explain(session, error))
    })
}
