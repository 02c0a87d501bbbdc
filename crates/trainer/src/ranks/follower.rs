use std::path::PathBuf;

use oomph_data::{Batch, Loader};
use oomph_memory::{Account, charge};

use oomph_advice::out_of_memory::OomContext;
use oomph_engine::{
    session::{Session, steps_per_epoch},
    step::state::{is_sharded, state},
};
use oomph_runs::{
    Quiet,
    state::{Checkpoint, StepSums, TrainProgress},
};

use super::rank_command::{RankCommand, StepLr, next_command, received_start};
use crate::{
    Stop, TrainError,
    batches::{last_batch, next_batch, train_loader},
    driver::{DrivenStep, Driver},
    memory_log::MemoryLog,
    open::new_stepper,
    progress::LossAccumulator,
    restore::restored,
    tensor_log::TensorLog,
};

/// A rank other than 0. It has its own replica and follows the commands of rank 0.
pub(super) struct Follower<'a> {
    session: &'a Session,
    stop: &'a Stop,
    log: &'a mut FollowerMemory,
    driver: Driver<'a>,
    progress: TrainProgress,
    /// Batches of the current epoch.
    loader: Option<Loader>,
    losses: LossAccumulator,
    /// Memory ran out in the last step, which has finished. Rank 0 may still save it, as memory may have run out there too.
    shortage: Option<TrainError>,
}

/// The rank's recorded memory, for its out-of-memory report.
struct FollowerMemory {
    log: Option<MemoryLog>,
    /// The directory of rank 0's report; `None` for no reports.
    report: Option<PathBuf>,
    /// Steps done.
    step: usize,
}

impl<'a> Follower<'a> {
    /// Starts from the checkpoint of rank 0, or from a new model.
    fn start(
        session: &'a Session,
        stop: &'a Stop,
        checkpoint: Option<PathBuf>,
        log: &'a mut FollowerMemory,
    ) -> Result<Self, TrainError> {
        let (mut stepper, mut progress) = match checkpoint {
            None => (new_stepper(session)?.0, TrainProgress::default()),
            Some(path) => restored(session, &charge(Account::Host, || Checkpoint::open(&path))?)?,
        };
        if let Some(log) = &mut log.log {
            log.follow(&mut stepper);
        }
        log.step = progress.step;
        progress.batches_per_epoch = steps_per_epoch(session);
        let driver = Driver::following(session, stepper, progress.step);
        let losses = LossAccumulator::default();
        Ok(Self { session, stop, log, driver, progress, loader: None, losses, shortage: None })
    }

    /// Follows commands until [`RankCommand::End`].
    fn run(&mut self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        loop {
            let command = next_command(replicas)?;
            let is_saving = matches!(
                command,
                RankCommand::Losses | RankCommand::Carried | RankCommand::State | RankCommand::Wait
            );
            if let Some(shortage) = self.shortage.take_if(|_| !is_saving) {
                return Err(shortage);
            }
            match command {
                RankCommand::Step { lr, norms } => {
                    let stepper = &mut self.driver.stepper;
                    // Elsewhere each rank knows the norms by itself, and rank 0 alone shows them.
                    stepper.measure_norms(norms && is_sharded(stepper));
                    self.step(lr)?
                }
                RankCommand::LastBatch => {
                    let lr = self.driver.next_lr();
                    last_batch(self.session)?.map_or(Ok(()), |batch| self.train(batch, lr.into()))?
                }
                // Rank 0 has the same sums and reports a loss that is not finite.
                RankCommand::Losses => drop(self.losses.read(replicas, &mut StepSums::default())?),
                RankCommand::EachLoss => drop(self.losses.read_each(replicas)?),
                RankCommand::Evaluate(most) => {
                    self.driver.evaluate(most, &mut Quiet, None, self.stop)?;
                }
                RankCommand::Carried => {
                    if let Some(carried) = &self.driver.stepper.carried {
                        replicas.gather_carried(carried)?;
                    }
                }
                RankCommand::State => drop(charge(Account::Host, || state(&self.driver.stepper))?),
                RankCommand::Check => replicas.check(&self.driver.stepper.model, self.progress.step)?,
                RankCommand::Wait => {}
                RankCommand::End => return Ok(()),
            }
        }
    }

    fn step(&mut self, lr: StepLr) -> Result<(), TrainError> {
        let (session, progress) = (self.session, &self.progress);
        let loader = self.loader.get_or_insert_with(|| train_loader(session, progress.epoch, progress.batch));
        // All ranks have equally many batches, and rank 0 has another one.
        let Some(batch) = next_batch(loader) else { return Ok(()) };
        self.train(batch?, lr)?;
        self.log.step += 1;
        if self.progress.count_step() {
            self.loader = None;
        }
        Ok(())
    }

    /// Trains on a batch with the learning rate of rank 0.
    fn train(&mut self, batch: Batch, lr: StepLr) -> Result<(), TrainError> {
        let DrivenStep { number, lr, outcome, .. } =
            self.driver.step_at(lr.get(), batch, RankCommand::Step { lr, norms: false })?;
        self.losses.add(number, lr, outcome);
        let layout = self.driver.stepper.layout();
        self.shortage = layout.check_after(self.log.step + 1).err().map(TrainError::from);
        Ok(())
    }
}

impl FollowerMemory {
    /// Adds an out-of-memory report to an error. Rank 0 adds what is left of the run.
    fn explain(&self, session: &Session, error: TrainError) -> TrainError {
        let Some(report) = &self.report else { return error };
        error.explained(session, |error, _| {
            if error.step.is_none() {
                let in_step = error.phase.is_in_step() && !error.in_evaluation;
                error.exhausted.at_step(self.step + usize::from(in_step));
            }
            let mut directory = report.clone().into_os_string();
            directory.push(format!("-rank-{}", session.replicas.rank()));
            let seen = self.log.as_ref().and_then(|log| log.seen(error));
            Some(OomContext { seen, directory: Some(directory.into()), ..OomContext::default() })
        })
    }
}

/// Follows rank 0 until the training ends. With `tensors`, the rank notes its tensors in it.
///
/// # Errors
/// Where this rank fails, or another rank failed. An out-of-memory error has a report.
pub(super) fn follow(session: &Session, stop: &Stop, tensors: Option<TensorLog>) -> Result<(), TrainError> {
    charge(Account::Device, || {
        let [checkpoint, report] = received_start(&session.replicas)?;
        let log = MemoryLog::join(session, tensors.unwrap_or_default());
        let mut log = FollowerMemory { log, report, step: 0 };
        let followed =
            Follower::start(session, stop, checkpoint, &mut log).and_then(|mut follower| follower.run());
        // The report is made before rank 0 receives the failure and ends the recording.
        followed.map_err(|error| log.explain(session, error))
    })
}
