//! What each device does of a step that one of them coordinates, recorded; and when.

use oomph_core::{Phase, phase};
use oomph_model::{AnyTensor, Named};
use oomph_parallel::{Course, Span, Work};
use oomph_plan::{Backend, cost};

use super::{
    Choice, Occasion, PlanOptions, STEPS, backend, check_shares,
    cut::{PlannedCut, PlannedPart, planned_part},
    parts::{PartRun, PartWork, Role, record_part},
    record::{eval_batch, targets},
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
                let handed = others.iter().map(|samples| self.blank_of(1, *samples, &plain));
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

/// What each device does that coordinates, or is coordinated.
struct Coordinated {
    backend: Backend,
    choice: Choice,
    /// Samples of a step, and those that are scattered at once.
    batch: usize,
    round: usize,
    /// Of them, those of each device.
    rows: Vec<usize>,
}

impl Coordinated {
    fn new(session: &Session, options: PlanOptions, share: Option<f64>) -> Result<Self, TrainError> {
        let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
        check_shares(session, options)?;
        let backend = options.backend.unwrap_or_else(|| backend(session));
        let limit_bytes = options.limit_bytes.or(session.limit_bytes);
        let largest = session.share_of(batch);
        let choice = session.choice(Occasion { batch: largest, backend, limit_bytes })?;
        let micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(largest);
        let devices = session.config.device.devices.len();
        let round = round(batch, micro_batch, devices, share);
        let rows = scattered(round, devices, share).iter().map(ExactSizeIterator::len).collect();
        Ok(Self { backend, choice, batch, round, rows })
    }

    fn micro_batches(&self) -> usize {
        self.batch.div_ceil(self.round)
    }

    /// About how long the first device takes for what it does in a step beside going forward and back: the loss, sums and
    /// the optimizer.
    fn seconds_beside(&self, session: &Session) -> Result<f64, TrainError> {
        let work = PartWork { micro_batches: 1, ..self.work(session, 0) };
        let all = cost(&record_part(session, &work, 1, self.backend)?, self.backend);
        Ok((all - work.seconds(session, self.backend)?).max(0.0))
    }

    fn work(&self, session: &Session, device: usize) -> PartWork {
        PartWork {
            stages: 0..session.stages.len(),
            device,
            role: match device {
                0 => Role::Coordinator { others: self.rows[1..].to_vec() },
                _ => Role::Replica,
            },
            micro_batch: self.rows[device],
            micro_batches: self.micro_batches(),
            eval_batch: eval_batch(session, &self.choice),
            recompute: kept_last(&self.choice.recompute),
        }
    }

    /// So many steps of each device, with at most so many micro-batches.
    fn parts(
        &self,
        session: &Session,
        options: PlanOptions,
        [steps, micro_batches]: [usize; 2],
    ) -> Result<Vec<PlannedPart>, TrainError> {
        let work = |device| {
            let work = self.work(session, device);
            PartWork { micro_batches: work.micro_batches.min(micro_batches), ..work }
        };
        let of = |device| planned_part(session, (&work(device), steps), (self.backend, self.batch), options);
        (0..self.rows.len()).map(of).collect()
    }
}

/// Plans each device of a session in which one coordinates the others.
pub(super) fn plan_coordinated(
    session: &Session,
    options: PlanOptions,
    share: Option<f64>,
) -> Result<PlannedCut, TrainError> {
    let coordinated = Coordinated::new(session, options, share)?;
    let parts = coordinated.parts(session, options, [STEPS, ALIKE])?;
    let micro_batches = coordinated.micro_batches();
    let seconds: Vec<f64> = parts.iter().map(|part| part.seconds).collect();
    let beside = coordinated.seconds_beside(session)?;
    let Coordinated { choice, batch, round, .. } = coordinated;
    let (course, policy) = (course(&seconds, beside, micro_batches), session.describe_choice(Some(&choice)));
    Ok(PlannedCut { parts, policy, batch, micro_batch: round, micro_batches, course })
}

/// The same of so many steps, with all their micro-batches.
pub(super) fn plan_coordinated_steps(
    session: &Session,
    options: PlanOptions,
    share: Option<f64>,
    steps: usize,
) -> Result<Vec<PlannedPart>, TrainError> {
    Coordinated::new(session, options, share)?.parts(session, options, [steps, usize::MAX])
}

/// About who does what when: all go forward, the first waits for all and computes the loss, all go back, and the first
/// does what it does `beside`, which is drawn as part of its last backward.
fn course(seconds: &[f64], beside: f64, micro_batches: usize) -> Course {
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
    // Then the first one sums what all gave, and the others wait.
    let all_done = free.iter().copied().fold(0.0, f64::max);
    if let Some(last) = course.devices[0].last_mut() {
        last.end_seconds = all_done + beside;
    }
    course
}
