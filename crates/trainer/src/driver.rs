use std::time::Instant;

use oomph_data::Batch;
use oomph_engine::{
    average::WeightAverage,
    session::{Session, mark_step, on_compute_thread},
    step::{StepOutcome, Stepper, state::to_evaluate},
};
use oomph_memory::{Account, charge, record::StepKind};

use oomph_runs::Observer;

use crate::{
    LrSchedule, Stop, TrainError,
    evaluate::{Evaluation, PlacedModel, PredictionHook, evaluate_batches},
    lr_schedule::lr_schedule,
    ranks::{RankCommand, command},
};

/// Drives a stepper, for training, following rank 0, rehearsing, measuring and profiling.
///
/// A driver marks each step on all devices, sends the command to the other ranks, sets the learning rate and counts steps.
pub(crate) struct Driver<'a> {
    session: &'a Session,
    pub(crate) stepper: Stepper,
    schedule: LrSchedule,
    /// Steps done.
    steps: usize,
    /// The learning rate of the last step. Of a step before a resume, that of the schedule.
    pub(crate) last_lr: f64,
    /// Whether the other ranks follow this one.
    leads: bool,
}

pub(crate) struct DrivenStep {
    /// The number of the step, from 1.
    pub(crate) number: usize,
    pub(crate) lr: f64,
    pub(crate) outcome: StepOutcome,
    pub(crate) begun: Instant,
}

impl<'a> Driver<'a> {
    /// A driver of rank 0, or of the only rank, after `steps` steps.
    pub(crate) fn leading(session: &'a Session, stepper: Stepper, steps: usize) -> Self {
        let schedule = lr_schedule(session);
        let last_lr = schedule.lr(steps.saturating_sub(1));
        Self { session, stepper, schedule, steps, last_lr, leads: true }
    }

    /// A driver of a rank that follows rank 0.
    pub(crate) fn following(session: &'a Session, stepper: Stepper, steps: usize) -> Self {
        Self { leads: false, ..Self::leading(session, stepper, steps) }
    }

    /// Trains on one batch with the learning rate of the schedule. The other ranks do the same with theirs.
    ///
    /// The caller checks afterwards whether the optimizer exceeded the limit.
    ///
    /// # Errors
    /// As those of [`Stepper::step_unchecked`].
    pub(crate) fn step(&mut self, batch: Batch) -> Result<DrivenStep, TrainError> {
        let lr = self.next_lr();
        self.step_at(lr, batch, RankCommand::Step { lr: lr.into(), norms: false })
    }

    /// The learning rate of the next step by the schedule.
    pub(crate) fn next_lr(&self) -> f64 {
        self.schedule.lr(self.steps)
    }

    /// As [`step`](Self::step), with learning rate `lr`. The other ranks get `rank_command`.
    ///
    /// # Errors
    /// As those of [`step`](Self::step).
    pub(crate) fn step_at(
        &mut self,
        lr: f64,
        batch: Batch,
        rank_command: RankCommand,
    ) -> Result<DrivenStep, TrainError> {
        let (session, step) = (self.session, self.steps);
        mark_step(session, step as u64 + 1, StepKind::Train);
        if self.leads {
            command(&session.replicas, rank_command)?;
        }
        let begun = Instant::now();
        let task = session.task.as_ref();
        let stepper = &mut self.stepper;
        let outcome = on_compute_thread(session, || {
            charge(Account::Device, || stepper.step_unchecked(batch, step, lr, task))
        })?;
        self.steps += 1;
        self.last_lr = lr;
        Ok(DrivenStep { number: self.steps, lr, outcome, begun })
    }

    /// Evaluates at most the first `most` batches on all ranks, with the running statistics of rank 0. `predictions` gets
    /// those of this rank. `None` where `stop` ended the evaluation early.
    ///
    /// # Errors
    /// As those of [`evaluate`](crate::evaluate).
    pub(crate) fn evaluate(
        &mut self,
        most: usize,
        observer: &mut dyn Observer,
        predictions: Option<&mut PredictionHook<'_>>,
        stop: &Stop,
    ) -> Result<Option<Evaluation>, TrainError> {
        let replicas = &self.session.replicas;
        if self.leads {
            command(replicas, RankCommand::Evaluate(most))?;
        }
        replicas.share_statistics(&mut self.stepper.model)?;
        if let Some(averaged) = self.stepper.average.as_mut().and_then(WeightAverage::model_mut) {
            replicas.share_statistics(averaged)?;
        }
        let placed = PlacedModel { model: to_evaluate(&self.stepper), layout: self.stepper.layout() };
        evaluate_batches(self.session, placed, most, predictions, observer, stop)
    }
}
