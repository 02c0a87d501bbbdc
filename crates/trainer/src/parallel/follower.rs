use std::path::Path;

use oomph_core::Split;
use oomph_data::Loader;
use oomph_memory::{Account, charge, record::StepKind};

use super::Order;
use crate::{
    Quiet, Schedule, Session, Stepper, Stop, TrainError,
    evaluate::evaluate_batches,
    held::Held,
    loading::next_batch,
    progress::Interval,
    state::{Checkpoint, Progress},
    train::restored,
};

/// A rank that is not 0: it has a replica of its own, and does what rank 0 orders.
pub(super) struct Follower<'a> {
    session: &'a Session,
    stop: &'a Stop,
    stepper: Stepper,
    schedule: Schedule,
    progress: Progress,
    /// Of the epoch that is being trained.
    loader: Option<Loader>,
    interval: Interval,
}

impl<'a> Follower<'a> {
    /// Starts where rank 0 does: it tells the checkpoint.
    fn start(session: &'a Session, stop: &'a Stop, held: Option<Held>) -> Result<Self, TrainError> {
        let checkpoint = session.replicas.told(None)?;
        let (mut stepper, mut progress) = match checkpoint.as_str() {
            "" => (Stepper::new(session)?, Progress::default()),
            path => {
                let checkpoint = charge(Account::Host, || Checkpoint::open(Path::new(path)))?;
                restored(session, &checkpoint)?
            }
        };
        progress.batches_per_epoch = session.steps_per_epoch();
        if let Some(mut held) = held {
            stepper.tell_parameters(&mut held);
            stepper.watch(Some(Box::new(held)));
        }
        let schedule = session.schedule();
        Ok(Self { session, stop, stepper, schedule, progress, loader: None, interval: Interval::default() })
    }

    /// Until rank 0 says that it is over.
    fn run(&mut self) -> Result<(), TrainError> {
        let replicas = &self.session.replicas;
        loop {
            match replicas.next_order()? {
                Order::Step => self.step()?,
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
        let (session, Progress { epoch, batch, step, .. }) = (self.session, self.progress.clone());
        let loader = self.loader.get_or_insert_with(|| {
            charge(Account::Host, || {
                let (source, order) = (session.source.clone(), session.train_order());
                let seed = Some(session.config.train.seed);
                Loader::start(source, Split::Train, order, epoch, batch, seed, &session.loader)
            })
        });
        // All ranks have as many batches, and rank 0 has one.
        let Some(batch) = next_batch(loader) else { return Ok(()) };
        session.mark_step(step as u64 + 1, StepKind::Train);
        let lr = self.schedule.lr(step);
        let outcome = self.stepper.step(batch?, step, lr, session.task.as_ref())?;
        self.interval.add(step + 1, lr, outcome);
        if self.progress.count_step() {
            self.loader = None;
        }
        Ok(())
    }

    /// The first batches: at most `most` of them.
    fn evaluate(&mut self, most: usize) -> Result<(), TrainError> {
        self.session.replicas.share_statistics(&mut self.stepper.model)?;
        evaluate_batches(self.session, &self.stepper.model, most, &mut Quiet, self.stop)?;
        Ok(())
    }
}

/// Trains as rank 0 orders, until it says that it is over. Notes which tensors are what, where somebody wants to know.
///
/// # Errors
/// Where this rank fails, or another did.
pub(super) fn follow(session: &Session, stop: &Stop, held: Option<Held>) -> Result<(), TrainError> {
    charge(Account::Device, || Follower::start(session, stop, held)?.run())
}
