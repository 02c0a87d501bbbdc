//! What each device does of a step of a model that is cut over several, recorded.

use std::{collections::HashSet, ops::Range};

use burn::tensor::Device;
use oomph_core::{Key, Phase, phase};
use oomph_model::{AnyTensor, Carried, Init, Pass, Policy, Stages, blank_input};
use oomph_parallel::{Schedule, Work};
use oomph_plan::{Backend, Note, Noted, Recording, cost};

use super::record::{Marks, recorded, targets};
use crate::{
    LossScale, Optimizer, Session, SessionError, TrainError, clip,
    forward::forward,
    gradients::each,
    parallel::{Part, PartContext},
    segments::{Position, Segments},
    unfinished::{Keeping, Unfinished},
    watch,
};

/// What a device does among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has consecutive stages, as one of so many devices.
    Part { devices: usize, schedule: Schedule },
    /// It has a replica, coordinates others, and sees so many samples of each of these at once.
    Coordinator { others: Vec<usize> },
    /// It has one of those other replicas.
    Replica,
}

/// A part of a model, or all of it, and what its device does in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartWork {
    /// The stages that it has.
    pub(crate) stages: Range<usize>,
    /// Its number among the devices.
    pub(crate) device: usize,
    pub(crate) role: Role,
    /// Samples of each micro-batch.
    pub(crate) micro_batch: usize,
    pub(crate) micro_batches: usize,
    /// Samples of each batch of an evaluation.
    pub(crate) eval_batch: usize,
    /// Which of all stages compute again.
    pub(crate) recompute: Vec<bool>,
}

impl PartWork {
    /// About how long the device goes forward and back with a micro-batch.
    pub(super) fn seconds(&self, session: &Session, backend: Backend) -> Result<f64, TrainError> {
        let role = match &self.role {
            Role::Coordinator { .. } => Role::Replica,
            other => other.clone(),
        };
        let work = Self { micro_batches: 1, role, ..self.clone() };
        Ok(cost(&record_part(session, &work, 1, backend)?, backend))
    }
}

/// Runs a part's steps on a device that records: the step of the executor itself, with blanks for what others hand over.
pub(crate) fn record_part(
    session: &Session,
    work: &PartWork,
    steps: usize,
    backend: Backend,
) -> Result<Recording, TrainError> {
    let policy = session.policy(backend);
    let run = |device: &Device, marks: &Marks| PartRun::new(session, work, policy, device, marks)?.run(steps);
    // The first device has the program's threads.
    let mut recording = Recording { is_on_own_threads: work.device > 0, ..recorded(session, run)? };
    forget_other_parts(&mut recording);
    Ok(recording)
}

/// Takes out what was made before the first step and is never read: the whole model is made, and the parts of other
/// devices are no device's here.
fn forget_other_parts(recording: &mut Recording) {
    let is_step = |note: &&Note| matches!(note.what, Noted::Step(_));
    let begin = recording.notes.iter().find(is_step).map_or(0, |note| note.at);
    let read: HashSet<u64> = recording
        .operations
        .iter()
        .flat_map(|operation| operation.inputs())
        .map(|tensor| tensor.id.value())
        .collect();
    let markers: HashSet<u64> = recording.notes.iter().map(|note| note.at).collect();
    recording.operations.retain(|operation| {
        let is_needed = |id: u64| id >= begin || read.contains(&id) || markers.contains(&id);
        operation.outputs().map(|tensor| tensor.id.value()).any(is_needed)
    });
}

pub(super) struct PartRun<'a> {
    pub(super) session: &'a Session,
    pub(super) work: &'a PartWork,
    pub(super) policy: Policy,
    pub(super) tracked: Device,
    marks: &'a Marks,
    model: Stages,
    segments: Segments,
    optimizer: Optimizer,
    carried: Option<Carried>,
    /// Of what the part takes and gives, for the samples of a micro-batch.
    shapes: [Vec<usize>; 2],
}

impl<'a> PartRun<'a> {
    fn new(
        session: &'a Session,
        work: &'a PartWork,
        policy: Policy,
        device: &Device,
        marks: &'a Marks,
    ) -> Result<Self, TrainError> {
        let _phase = phase(Phase::Init);
        let tracked = session.tracked(device);
        let PartWork { stages, .. } = work;
        let mut whole = session.architecture.build(session.spec(), &Init::shapes_only(&tracked))?;
        let is_cut = matches!(work.role, Role::Part { .. });
        if let Some((borrower, lender)) = whole.borrowers().first().filter(|_| is_cut) {
            let name = |stage: usize| session.stages[stage].clone();
            let (borrower, lender) = (name(*borrower), name(*lender));
            return Err(SessionError::Shared { borrower, lender }.into());
        }
        let position = Position {
            first_stage: stages.start,
            continues: stages.start > whole.leading_frozen(),
            // Of a replica's output it is the coordinator that computes the loss.
            is_continued: !is_cut || stages.end < whole.len(),
        };
        drop(whole.split_off(stages.end));
        let model = whole.split_off(stages.start);
        let segments =
            Segments::new(&model, work.recompute[stages.clone()].to_vec(), &policy, None, &[], position);
        let summary = session.summary(work.micro_batch)?;
        let output =
            |stage: usize| summary.stages().nth(stage).map(|row| row.output.clone()).unwrap_or_default();
        let shapes = [stages.start.checked_sub(1).map(output).unwrap_or_default(), output(stages.end - 1)];
        watch::parameters(&mut marks.clone(), &model);
        Ok(Self {
            session,
            work,
            policy,
            tracked,
            marks,
            model,
            segments,
            optimizer: Optimizer::new(&session.config.optimizer, policy.kernels),
            carried: session.source.is_continuous().then(Carried::new),
            shapes,
        })
    }

    fn run(mut self, steps: usize) -> Result<Vec<String>, TrainError> {
        let names = self.model.names().map(str::to_owned).collect();
        for step in 0..steps {
            self.marks.note(Noted::Step(format!("step {}", step + 1)));
            self.step(step, self.work.micro_batches)?;
        }
        if self.work.role != Role::Replica {
            self.marks.note(Noted::Step("evaluation".into()));
            self.evaluate()?;
        }
        // What the last step left is read once more, so that the recording shows that it lives.
        self.marks.note(Noted::End);
        self.step(steps, 1)?;
        Ok(names)
    }

    fn step(&mut self, step: usize, micro_batches: usize) -> Result<(), TrainError> {
        let work = self.work;
        let loss_scale = (self.policy.precision == oomph_config::Precision::Fp16).then(LossScale::default);
        let round: usize = match &work.role {
            Role::Coordinator { others } => work.micro_batch + others.iter().sum::<usize>(),
            _ => work.micro_batch,
        };
        let context = PartContext {
            key: Key::new(0).with(step as u64),
            policy: self.policy,
            task: self.session.task.as_ref(),
            samples: round * micro_batches,
            continues: step > 0,
            loss_scale: loss_scale.as_ref().map(LossScale::scale),
        };
        let model = std::mem::take(&mut self.model);
        let (segments, unfinished) = (self.segments.clone(), Unfinished::new(Keeping::Nothing));
        let mut part = Part::new(model, &segments, unfinished, self.carried.take());
        match &work.role {
            Role::Part { devices, schedule } => {
                let is_last = work.device + 1 == *devices;
                for work in schedule.work(work.device, *devices, micro_batches) {
                    self.of_chain(&mut part, work, is_last, context)?;
                }
            }
            Role::Coordinator { others } => self.of_coordinator(&mut part, others, micro_batches, context)?,
            Role::Replica => self.of_replica(&mut part, micro_batches, context)?,
        }
        self.finish(part, loss_scale)
    }

    fn of_chain(
        &self,
        part: &mut Part<'_>,
        work: Work,
        is_last: bool,
        context: PartContext<'_>,
    ) -> Result<(), TrainError> {
        let micro_batch = self.work.micro_batch;
        match work {
            Work::Forward(index) => {
                let uploading = phase(Phase::Data);
                let input = self.input();
                let targets = is_last.then(|| targets(self.session.spec(), micro_batch, &self.tracked));
                drop(uploading);
                let rows = index * micro_batch..(index + 1) * micro_batch;
                part.forward((index, rows), input, targets, context)?;
            }
            Work::Backward(index) => {
                let backward = phase(Phase::Backward);
                let gradient = (!is_last).then(|| self.blank(1, &self.tracked.clone().inner()));
                drop(backward);
                part.backward(index, gradient)?;
            }
        }
        Ok(())
    }

    /// What comes from the device before, or from the data.
    pub(super) fn input(&self) -> AnyTensor {
        match self.work.stages.start {
            0 => blank_input(self.session.spec(), self.work.micro_batch, &self.tracked),
            _ => self.blank(0, &self.tracked),
        }
    }

    /// What the part takes, `side` 0, or gives.
    pub(super) fn blank(&self, side: usize, device: &Device) -> AnyTensor {
        AnyTensor::zeros_as(&self.shapes[side], self.policy.dtype(), device)
    }

    /// The same for so many samples.
    pub(super) fn blank_of(&self, side: usize, samples: usize, device: &Device) -> AnyTensor {
        let mut shape = self.shapes[side].clone();
        shape[0] = shape[0] / self.work.micro_batch.max(1) * samples;
        AnyTensor::zeros_as(&shape, self.policy.dtype(), device)
    }

    fn finish(&mut self, part: Part<'_>, loss_scale: Option<LossScale>) -> Result<(), TrainError> {
        let _phase = phase(Phase::Step);
        let Part { mut model, mut gradients, left, .. } = part;
        self.carried = self.session.source.is_continuous().then(|| Carried::joined(left));
        if self.work.role == Role::Replica {
            // The coordinator has the optimizer.
            self.model = model;
            return Ok(());
        }
        watch::gradients(&mut self.marks.clone(), &gradients);
        if let Some(loss_scale) = loss_scale {
            gradients = each(gradients, |gradient| gradient.scale(loss_scale.scale().recip()));
        }
        if let Some(limit) = self.session.config.optimizer.clip {
            gradients = clip(gradients, limit);
        }
        self.optimizer.step(0.1, &mut model, gradients);
        watch::parameters(&mut self.marks.clone(), &model);
        self.model = model;
        Ok(())
    }

    /// A batch of an evaluation, through the stages that the device has; the last of them compares.
    fn evaluate(&self) -> Result<(), TrainError> {
        let (session, model) = (self.session, self.model.inference());
        let (spec, samples) = (session.spec(), self.work.eval_batch);
        let uploading = phase(Phase::Data);
        let plain = self.tracked.clone().inner();
        let input = match self.work.stages.start {
            0 => blank_input(spec, samples, &plain),
            _ => self.blank_of(0, samples, &plain),
        };
        let is_last = self.work.stages.end == session.stages.len();
        let targets = is_last.then(|| targets(spec, samples, &plain));
        drop(uploading);
        let _phase = phase(Phase::Eval);
        let mut pass = Pass::eval().with_policy(self.policy);
        if session.source.is_continuous() {
            pass = pass.with_carried(Carried::new());
        }
        let output = forward(&model, input, &mut pass, None)?;
        if let Some(targets) = targets {
            session.task.loss(&output, &targets)?.mul_scalar(samples as f32);
            session.task.correct(&output, &targets);
        }
        Ok(())
    }
}
