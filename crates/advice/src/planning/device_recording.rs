//! Recordings of the training on one device: the engine's step over a transport of blank tensors.

use std::{collections::HashSet, ops::Range, time::Duration};

use burn::tensor::Device;
use oomph_config::{OptimizerKind, sections::memory::Gradients};
use oomph_core::{Phase, phase};
use oomph_engine::{
    EngineError,
    layout::{DeviceSlot, Layout, Role},
    part::{EvaluatedModel, TokenChunks, compare_evaluated, evaluate_in_chunks, evaluate_stages},
    session::{Session, StepSplit},
    step::{
        StepSettings, Stepper,
        state::{shard_parameters, stepped_elements, to_evaluate},
    },
    task::DeviceTargets,
    transport::{BlankShapes, BlankTransport, LinkTensor, Transport as _, blank_targets, left_device},
};
use oomph_model::{Carried, Init, Pass, Policy, Stages};
use oomph_plan::{Backend, GraphEnds, Noted, Recording, time::cost};

use super::{
    capture::{RecordingMarks, capture},
    evaluation::largest_eval_share,
};
use crate::error::PlanError;

/// The work of one device in the planned steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceWork {
    /// The number of the device.
    pub(super) device: usize,
    pub(super) role: Role,
    /// The stages of the device.
    pub(super) stages: Range<usize>,
    /// For each stage of the whole model: whether it recomputes.
    pub(super) recompute: Vec<bool>,
    /// Samples of a step.
    pub(super) batch: usize,
    /// Samples of each recorded micro-batch.
    pub(super) sizes: Vec<usize>,
    /// Optimizer steps. The first creates the optimizer state.
    pub(super) steps: usize,
    /// Evaluation batches after the steps.
    pub(super) eval_batches: usize,
    /// Samples of an evaluation batch.
    pub(super) eval_batch: usize,
}

/// The number of planned steps. The first step creates the optimizer state. Some optimizers, such as AMSGrad, share one
/// buffer between two tensors until the second step. The third step has all state from the start, as all later steps.
pub const STEPS: usize = 3;

impl DeviceWork {
    /// Three steps and an evaluation batch of a single device.
    pub(super) fn alone(session: &Session, batch: usize, split: StepSplit) -> Self {
        let StepSplit { micro_batch, recompute } = split;
        Self {
            device: 0,
            role: Role::alone(),
            stages: 0..session.stages.len(),
            recompute,
            batch,
            sizes: sizes(batch, micro_batch, different(session)),
            steps: STEPS,
            eval_batches: 1,
            eval_batch: largest_eval_share(session, micro_batch),
        }
    }

    /// The estimated seconds of forward and backward of a micro-batch.
    pub(super) fn seconds(&self, session: &Session, backend: Backend) -> Result<f64, PlanError> {
        let role = match self.role {
            // A replica has the forward and backward of a coordinator, without its other work.
            Role::Coordinator(scatter) => Role::Replica { device: 0, scatter },
            ref role => role.clone(),
        };
        let work = Self { role, ..self.first_micro_batch() };
        Ok(cost(&record(session, &work, backend)?, session.speeds.of(backend)))
    }

    /// The same work with a single step of the first micro-batch.
    pub(super) fn first_micro_batch(&self) -> Self {
        Self { sizes: self.sizes[..1].to_vec(), steps: 1, eval_batches: 0, ..self.clone() }
    }

    /// The most rows that the device forwards of a micro-batch.
    fn largest_micro_batch(&self) -> usize {
        self.sizes.iter().map(|samples| self.role.rows(*samples).len()).max().unwrap_or(1).max(1)
    }
}

/// How many whole micro-batches differ in what they hold; later ones repeat the last. The second has the gradients of the
/// first. Where gradients leave during the last one, to be summed or released, one between has the most.
pub(super) fn different(session: &Session) -> usize {
    let leave = session.world_size() > 1 || session.config.memory.gradients == Gradients::Release;
    if leave { 3 } else { 2 }
}

/// The sizes of the micro-batches of a batch: at most `most_whole` whole ones, and the smaller last one.
pub(super) fn sizes(batch: usize, micro_batch: usize, most_whole: usize) -> Vec<usize> {
    let (whole, rest) = ((batch / micro_batch).min(most_whole), batch % micro_batch);
    std::iter::repeat_n(micro_batch, whole).chain((rest > 0).then_some(rest)).collect()
}

/// Records training on one device. It allocates no tensors.
pub(super) fn record(session: &Session, work: &DeviceWork, backend: Backend) -> Result<Recording, PlanError> {
    let policy = session.policy(backend);
    let shapes = shapes(session, work);
    let run = |device: &Device, marks: &RecordingMarks| {
        let recorder = DeviceRecorder { session, work, policy, shapes: &shapes, device, marks };
        recorder.run()
    };
    // The first device uses the threads of the program.
    let mut recording = Recording {
        is_on_own_threads: work.device > 0,
        graph_ends: match work.role {
            Role::Stages { devices, .. } if devices > 1 => GraphEnds::OldestFirst,
            Role::Coordinator(_) => GraphEnds::LossFirst,
            Role::Stages { .. } | Role::Replica { .. } => GraphEnds::Together,
        },
        ..capture(session, run)?
    };
    if work.stages != (0..session.stages.len()) {
        forget_other_parts(&mut recording);
    }
    Ok(recording)
}

/// The shapes of the tensors that cross the links of the device.
fn shapes(session: &Session, work: &DeviceWork) -> BlankShapes {
    if work.role == Role::alone() {
        return BlankShapes::default();
    }
    let samples = work.largest_micro_batch();
    let output = |stage: usize| session.outputs.shape(stage, samples);
    BlankShapes {
        samples,
        input: work.stages.start.checked_sub(1).map(output).unwrap_or_default(),
        output: output(work.stages.end - 1),
    }
}

/// Removes operations with unread outputs from before the first step. The whole model was built, but the device has
/// only some of its stages.
fn forget_other_parts(recording: &mut Recording) {
    let is_step = |note: &&oomph_plan::Note| matches!(note.what, Noted::Step(_));
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

/// Runs the engine on a capture device.
struct DeviceRecorder<'a> {
    session: &'a Session,
    work: &'a DeviceWork,
    policy: Policy,
    shapes: &'a BlankShapes,
    /// The capture device, without autodiff.
    device: &'a Device,
    marks: &'a RecordingMarks,
}

impl DeviceRecorder<'_> {
    fn run(&self) -> Result<Vec<String>, PlanError> {
        let mut stepper = self.stepper()?;
        let DeviceWork { steps, sizes, batch, .. } = self.work;
        for step in 0..*steps {
            self.marks.note(Noted::Step(format!("step {}", step + 1)));
            self.step(&mut stepper, step, *batch, sizes)?;
            if step == 0 {
                self.note_unread_state(&stepper);
            }
        }
        if self.work.role.has_optimizer() {
            for _ in 0..self.work.eval_batches {
                self.marks.note(Noted::Step("evaluation".into()));
                self.evaluate(to_evaluate(&stepper))?;
            }
        }
        // One more step reads the state after the last step, so the recording shows that the state is alive.
        self.marks.note(Noted::End);
        stepper.watch(None);
        self.step(&mut stepper, *steps, sizes[0], &sizes[..1])?;
        Ok(stepper.model.names().map(str::to_owned).collect())
    }

    /// A stepper for the stages of the device.
    fn stepper(&self) -> Result<Stepper, PlanError> {
        let _phase = phase(Phase::Init);
        let (session, work) = (self.session, self.work);
        let tracked = session.tracked(self.device);
        let mut whole = session.architecture.build(session.spec(), &Init::shapes_only(&tracked))?;
        self.check_shared_parameters(&whole)?;
        drop(whole.split_off(work.stages.end));
        let model = whole.split_off(work.stages.start);
        let split = StepSplit { micro_batch: work.sizes[0], recompute: work.recompute.clone() };
        let settings = StepSettings::new(session, self.policy, split);
        let slot = DeviceSlot::new(0, String::new(), tracked, work.stages.clone(), work.role.clone());
        let mut stepper = Stepper::recorded(settings, Layout::new(vec![slot], Duration::ZERO), model);
        shard_parameters(&mut stepper);
        stepper.tell_parameters(&mut self.marks.clone());
        stepper.watch(Some(Box::new(self.marks.clone())));
        Ok(stepper)
    }

    /// Checks that no stage of a split model shares the parameters of another.
    fn check_shared_parameters(&self, whole: &Stages) -> Result<(), PlanError> {
        if !matches!(self.work.role, Role::Stages { devices, .. } if devices > 1) {
            return Ok(());
        }
        let name = |stage: usize| self.session.stages[stage].clone();
        match whole.borrowers().first() {
            Some((borrower, lender)) => {
                Err(PlanError::SharedParameters { borrower: name(*borrower), lender: name(*lender) })
            }
            None => Ok(()),
        }
    }

    fn transport(&self, sizes: &[usize]) -> BlankTransport<'_> {
        let (dtype, mixes) = (self.policy.dtype(), self.session.loader.mix.is_on());
        BlankTransport { spec: self.session.spec(), sizes: sizes.to_vec(), shapes: self.shapes, dtype, mixes }
    }

    fn step(
        &self,
        stepper: &mut Stepper,
        step: usize,
        samples: usize,
        sizes: &[usize],
    ) -> Result<(), EngineError> {
        stepper.record_step(self.transport(sizes), step, samples, sizes, self.session.task.as_ref())
    }

    /// Burn's centred RMSProp keeps a tensor for each parameter that no later step reads. The recording cannot show
    /// that it stays alive, so it is noted here.
    fn note_unread_state(&self, stepper: &Stepper) {
        if let OptimizerKind::RmsProp { centered: true, .. } = self.session.config.optimizer.kind {
            let bytes = (stepped_elements(stepper) * size_of::<f32>()) as u64;
            let _phase = phase(Phase::Step);
            self.marks.note(Noted::Kept { bytes, what: "centred average" });
        }
    }

    /// Records an evaluation batch through the stages of the device. The device with the last stage computes the loss.
    fn evaluate(&self, model: EvaluatedModel<'_>) -> Result<(), EngineError> {
        let (session, samples) = (self.session, self.work.eval_batch);
        let stages = model.stages.inference();
        let model = EvaluatedModel { stages: &stages, ..model };
        let is_last = self.work.stages.end == session.stages.len();
        let mut transport = self.transport(&[samples]);
        let uploading = phase(Phase::Data);
        let input = match self.work.stages.start {
            0 => transport.input(0, 0..samples, self.device),
            _ => transport.blank(LinkTensor::Input, samples, self.device),
        };
        drop(uploading);
        let _phase = phase(Phase::Eval);
        let mut pass = Pass::eval().with_policy(self.policy);
        if session.source.is_continuous() {
            pass = pass.with_carried(Carried::new());
        }
        let targets = || {
            let _phase = phase(Phase::Data);
            blank_targets(session.spec(), samples, self.device)
        };
        if let Some(size) = session.config.memory.loss_chunk.filter(|_| is_last) {
            let chunks = TokenChunks::new(targets(), size)?;
            let task = session.task.as_ref();
            evaluate_in_chunks(model, input, &mut pass, &chunks, task, samples as f64)?;
        } else if let (output, true) = (evaluate_stages(model, input, &mut pass, is_last)?, is_last) {
            let targets = targets();
            compare_evaluated(session.task.as_ref(), &output, &targets, samples as f64)?;
            if let DeviceTargets::Labels(labels) = targets {
                // Both live until the end, while their comparison reads them first and is as large as they are.
                left_device(output);
                left_device(labels.into());
            }
        }
        // The next batch continues from it.
        let carried = pass.take_carried().unwrap_or_default();
        carried.tensors().values().cloned().for_each(left_device);
        Ok(())
    }
}
