//! What each device does of a step that one of them coordinates, recorded; and when.

use std::ops::Range;

use oomph_core::{Phase, phase};
use oomph_model::{AnyTensor, Named};
use oomph_parallel::{Course, Span, Work};

use super::{
    cut::{PlannedCut, PlannedPart},
    parts::{PartRun, PartWork, Role},
    record::targets,
};
use crate::{
    Session, TrainError,
    gradients::accumulate,
    parallel::{
        Part, PartContext,
        coordinator::{compare, kept_last, round, scattered},
    },
    planning::{Choice, cut::Planner},
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
    planner: &Planner<'_>,
    share: Option<f64>,
) -> Result<PlannedCut, TrainError> {
    let Planner { choice: Choice { micro_batch, recompute }, batch, devices, .. } = planner;
    let round = round(*batch, *micro_batch, *devices, share);
    let micro_batches = batch.div_ceil(round);
    let rows: Vec<usize> = scattered(round, *devices, share).iter().map(ExactSizeIterator::len).collect();
    let stages = 0..session.stages.len();
    let work = |device: usize| PartWork {
        stages: stages.clone(),
        device,
        role: match device {
            0 => Role::Coordinator { others: rows[1..].to_vec() },
            _ => Role::Replica,
        },
        micro_batch: rows[device],
        micro_batches: micro_batches.min(ALIKE),
        recompute: kept_last(recompute),
    };
    let parts = (0..*devices).map(|device| planned(session, planner, &work(device)));
    let parts = parts.collect::<Result<Vec<PlannedPart>, TrainError>>()?;
    let seconds: Vec<f64> = parts.iter().map(|part| part.seconds).collect();
    let course = course(&seconds, micro_batches);
    Ok(PlannedCut { parts, micro_batch: round, micro_batches, course })
}

fn planned(session: &Session, planner: &Planner<'_>, work: &PartWork) -> Result<PlannedPart, TrainError> {
    let Range { start, end } = work.stages.clone();
    let names = [start, end - 1].map(|stage| session.stages[stage].clone());
    // Of forward and backward alone.
    let seconds = planner.seconds_of(&PartWork { micro_batches: 1, role: Role::Replica, ..work.clone() })?;
    let timeline = planner.timeline_of(work)?;
    let device = session.config.device.devices[work.device].to_string();
    Ok(PlannedPart { device, stages: work.stages.clone(), names, timeline, seconds })
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
