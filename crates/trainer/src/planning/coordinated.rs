//! What each device does of a step that one of them coordinates, recorded; and when.

use std::ops::Range;

use oomph_core::{Bytes, Phase, phase};
use oomph_model::{AnyTensor, Named};
use oomph_parallel::{Course, Span, Work};
use oomph_plan::{Backend, Head, cost, replay};

use super::{
    Occasion, PlanOptions, STEPS, backend,
    cut::{PlannedCut, PlannedPart},
    parts::{PartRun, PartWork, Role, record_part},
    record::targets,
};
use crate::{
    Session, TrainError,
    gradients::accumulate,
    parallel::{
        Part, PartContext,
        coordinator::{compare, kept_last, round, scattered},
    },
};

/// Micro-batches from which on one is as the one before.
const ALIKE: usize = 3;

impl PartRun<'_> {
    /// Forward and backward of the device that coordinates.
    pub(super) fn of_coordinator(
        &self,
        part: &mut Part<'_>,
        others: &[usize],
        micro_batches: usize,
        context: PartContext<'_>,
    ) -> Result<(), TrainError> {
        let (plain, own) = (self.tracked.clone().inner(), self.work.micro_batch);
        for index in 0..micro_batches {
            let output = self.forward_whole(part, index, context)?;
            let samples = own + others.iter().sum::<usize>();
            let gathered = {
                let _phase = phase(Phase::Forward);
                let handed = others.iter().map(|samples| self.blank_output(*samples, &plain));
                AnyTensor::joined(output.into_iter().chain(handed).collect())
            };
            let targets = {
                let _phase = phase(Phase::Data);
                targets(self.session.spec(), samples, &self.tracked)
            };
            let compared = compare(&self.tracked, gathered, targets, samples, context)?;
            let backward = phase(Phase::Backward);
            let of_own = |gradient: AnyTensor| {
                let rows = gradient.dims()[0] / samples * own;
                gradient.rows(0..rows)
            };
            let gradient = compared.gradient.map(of_own);
            drop(backward);
            part.backward(index, gradient)?;
        }
        let _phase = phase(Phase::Backward);
        let shapes: Vec<_> =
            part.gradients.iter().map(|(name, gradient)| (name.clone(), gradient.dims())).collect();
        for _ in others {
            for (name, shape) in &shapes {
                let handed = AnyTensor::zeros(shape, &plain);
                accumulate(&mut part.gradients, Named::from([(name.clone(), handed)]));
            }
        }
        Ok(())
    }

    /// Forward and backward of a device that is coordinated.
    pub(super) fn of_replica(
        &self,
        part: &mut Part<'_>,
        micro_batches: usize,
        context: PartContext<'_>,
    ) -> Result<(), TrainError> {
        for index in 0..micro_batches {
            drop(self.forward_whole(part, index, context)?);
            let backward = phase(Phase::Backward);
            let gradient = self.blank(1, &self.tracked.clone().inner());
            drop(backward);
            part.backward(index, Some(gradient))?;
        }
        Ok(())
    }

    fn forward_whole(
        &self,
        part: &mut Part<'_>,
        index: usize,
        context: PartContext<'_>,
    ) -> Result<Option<AnyTensor>, TrainError> {
        let uploading = phase(Phase::Data);
        let input = self.input();
        drop(uploading);
        let samples = self.work.micro_batch;
        part.forward((index, index * samples..(index + 1) * samples), input, None, context)
    }
}

/// Plans each device of a session in which one coordinates the others.
pub(super) fn plan_coordinated(
    session: &Session,
    options: PlanOptions,
    share: Option<f64>,
) -> Result<PlannedCut, TrainError> {
    let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let limit_bytes = options.limit_bytes.or(session.limit_bytes);
    let largest = session.share_of(batch);
    let choice = session.choice(Occasion { batch: largest, backend, limit_bytes })?;
    let micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(largest);
    let devices = session.config.device.devices.len();
    let round = round(batch, micro_batch, devices, share);
    let micro_batches = batch.div_ceil(round);
    let rows: Vec<usize> = scattered(round, devices, share).iter().map(ExactSizeIterator::len).collect();
    let work = |device: usize| PartWork {
        stages: 0..session.stages.len(),
        device,
        role: match device {
            0 => Role::Coordinator { others: rows[1..].to_vec() },
            _ => Role::Replica,
        },
        micro_batch: rows[device],
        micro_batches: micro_batches.min(ALIKE),
        recompute: kept_last(&choice.recompute),
    };
    let part = |device| planned(session, (backend, batch), &work(device), options.limit_bytes);
    let parts = (0..devices).map(part).collect::<Result<Vec<PlannedPart>, TrainError>>()?;
    let seconds: Vec<f64> = parts.iter().map(|part| part.seconds).collect();
    let (course, policy) = (course(&seconds, micro_batches), session.describe_choice(Some(&choice)));
    Ok(PlannedCut { parts, policy, batch, micro_batch: round, micro_batches, course })
}

fn planned(
    session: &Session,
    (backend, batch): (Backend, usize),
    work: &PartWork,
    limit_bytes: Option<Bytes>,
) -> Result<PlannedPart, TrainError> {
    let Range { start, end } = work.stages.clone();
    let names = [start, end - 1].map(|stage| session.stages[stage].clone());
    // Of forward and backward alone.
    let forward_backward = PartWork { micro_batches: 1, role: Role::Replica, ..work.clone() };
    let seconds = cost(&record_part(session, &forward_backward, 1, backend)?, backend);
    let device = session.config.device.devices[work.device].to_string();
    let head = Head {
        title: format!("{} · batch {batch} · device {}", session.architecture.name(), work.device),
        device: device.clone(),
        limit_bytes: session.limit_of(work.device),
    };
    let timeline = replay(&record_part(session, work, STEPS, backend)?, backend, head);
    let limit_bytes = session.limit_of(work.device).or(limit_bytes);
    Ok(PlannedPart { device, stages: work.stages.clone(), names, limit_bytes, timeline, seconds })
}

/// About who does what when: all go forward, the first waits for all and computes the loss, all go back.
fn course(seconds: &[f64], micro_batches: usize) -> Course {
    let mut course = Course { devices: vec![Vec::new(); seconds.len()] };
    let mut free = vec![0.0; seconds.len()];
    for index in 0..micro_batches {
        let forward: Vec<f64> = free.iter().zip(seconds).map(|(start, of)| start + of / 3.0).collect();
        let gathered = forward.iter().copied().fold(0.0, f64::max);
        for (device, of) in seconds.iter().enumerate() {
            let back = gathered + of * 2.0 / 3.0;
            let span = |work, start_seconds, end_seconds| Span { work, start_seconds, end_seconds };
            course.devices[device].extend([
                span(Work::Forward(index), free[device], forward[device]),
                span(Work::Backward(index), gathered, back),
            ]);
            free[device] = back;
        }
    }
    course
}
