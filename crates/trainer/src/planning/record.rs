use std::{cell::RefCell, rc::Rc};

use burn::tensor::{Device, FloatDType, IntDType, Tensor};
use oomph_config::{OptimizerKind, Recompute};
use oomph_core::{Phase, SampleSpec, Split, TargetSpec, phase, watch_places};
use oomph_memory::Category;
use oomph_model::{AnyTensor, Carried, Init, ModelError, Pass, Policy, Stages, Storage, blank_input};
use oomph_plan::{Backend, Note, Noted, Recording};

use super::{Choice, STEPS};
use crate::{
    DeviceTargets, Session, Stepper, TrainError, Watch,
    forward::forward,
    step::{DeviceBatch, StepContext},
    watch,
};

/// What of training is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// Samples of one optimizer step.
    pub(super) batch: usize,
    /// How a step is cut.
    pub(super) choice: Choice,
    /// Samples of one forward of evaluation.
    pub(super) eval_batch: usize,
    /// Optimizer steps. The first makes the optimizer's state, the second has it from the start.
    pub(super) steps: usize,
    /// Batches of evaluation behind them.
    pub(super) eval_batches: usize,
}

impl Work {
    /// So many steps that a plan of them is one of all that follow, and an evaluation batch.
    pub(super) fn of_steps(session: &Session, batch: usize, choice: Choice) -> Self {
        let eval_batch = eval_batch(session, &choice);
        Self { batch, choice, eval_batch, steps: STEPS, eval_batches: 1 }
    }
}

/// Samples of one forward of evaluation. No batch is larger than the data, unless somebody asks what one would take.
pub(super) fn eval_batch(session: &Session, choice: &Choice) -> usize {
    let most = session.source.len(Split::Test).max(1);
    session.config.train.eval_batch.unwrap_or(choice.micro_batch).min(most)
}

/// Runs training on a device that records operations and executes none. No tensor is allocated, whatever the batch.
pub(super) fn record(session: &Session, work: &Work, backend: Backend) -> Result<Recording, TrainError> {
    let policy = session.policy(backend);
    recorded(session, |device, marks| run(session, work, policy, device, marks))
}

/// Records what `run` does on a device that executes nothing. It gives the names of the stages that it runs.
pub(super) fn recorded(
    session: &Session,
    run: impl FnOnce(&Device, &Marks) -> Result<Vec<String>, TrainError>,
) -> Result<Recording, TrainError> {
    let mut device = Device::capture();
    let mut notes = None;
    let graph = device.clone().capture_scope(|scope| {
        // The trainer's integers are 32 bits, the capture device's by default 64. Configuring can only fail for types
        // that a device lacks, and it has these.
        let _ = device.configure((FloatDType::F32, IntDType::I32));
        let marks = Marks::new(&device);
        let watcher = marks.clone();
        let done = watch_places(move |place| watcher.note(Noted::Place(place)), || run(&device, &marks));
        notes = Some(done.map(|stages| (marks.take(), stages)));
        scope.complete([], [])
    });
    let failed = |reason: String| TrainError::Model(ModelError::Device { reason });
    // The scope runs its closure before it can fail; an error of the model comes before one of the recording.
    let (notes, stages) = notes.unwrap_or_else(|| Err(failed("the capture scope did not run".into())))?;
    let graph = graph.map_err(|error| failed(error.to_string()))?;
    let is_checkpointed = session.config.memory.recompute == Recompute::Ops;
    Ok(Recording {
        operations: graph.graph.operations,
        notes,
        stages,
        is_checkpointed,
        is_on_own_threads: false,
    })
}

fn run(
    session: &Session,
    work: &Work,
    policy: Policy,
    device: &Device,
    marks: &Marks,
) -> Result<Vec<String>, TrainError> {
    let tracked = session.tracked(device);
    let init = phase(Phase::Init);
    let model = session.architecture.build(session.spec(), &Init::shapes_only(&tracked))?;
    let mut stepper = Stepper::recorded(session, model, tracked.clone(), policy, work.choice.clone());
    watch::parameters(&mut marks.clone(), &stepper.model);
    drop(init);
    stepper.watch(Some(Box::new(marks.clone())));
    for step in 0..work.steps {
        marks.note(Noted::Step(format!("step {}", step + 1)));
        train(session, &mut stepper, step, work, &tracked)?;
        if step == 0 {
            note_unread_state(session, &stepper, marks);
        }
    }
    for _ in 0..work.eval_batches {
        marks.note(Noted::Step("evaluation".into()));
        evaluate(session, &stepper.model, work.eval_batch, policy, device)?;
    }
    // What the last step left is read once more, so that the recording shows that it lives.
    marks.note(Noted::End);
    stepper.watch(None);
    let rest = Work { batch: work.choice.micro_batch.min(work.batch), ..work.clone() };
    train(session, &mut stepper, work.steps, &rest, &tracked)?;
    Ok(stepper.model.names().map(str::to_owned).collect())
}

/// Burn's centred RMSProp keeps a tensor of each parameter's size that no later step reads, so that no recording shows
/// how long it lives.
fn note_unread_state(session: &Session, stepper: &Stepper, marks: &Marks) {
    if let OptimizerKind::RmsProp { centered: true, .. } = session.config.optimizer.kind {
        let bytes = (stepper.model.trainable_elements() * size_of::<f32>()) as u64;
        let _phase = phase(Phase::Step);
        marks.note(Noted::Kept { bytes, what: "centred average" });
    }
}

/// One step. Of micro-batches alike, the first two and the smaller last one tell all: what follows repeats the second.
fn train(
    session: &Session,
    stepper: &mut Stepper,
    step: usize,
    work: &Work,
    device: &Device,
) -> Result<(), TrainError> {
    let (batch, micro_batch) = (work.batch, work.choice.micro_batch);
    let whole = (batch / micro_batch).min(2);
    let rest = batch % micro_batch;
    let sizes: Vec<_> = std::iter::repeat_n(micro_batch, whole).chain((rest > 0).then_some(rest)).collect();
    let spec = session.spec();
    let batches = sizes.into_iter().map(|size| DeviceBatch {
        input: blank_input(spec, size, device),
        targets: targets(spec, size, device),
        size,
    });
    let context =
        StepContext { step, lr: 0.1, samples: batch, continues: step > 0, task: session.task.as_ref() };
    stepper.run(batches, context).map(drop)
}

fn evaluate(
    session: &Session,
    model: &Stages,
    batch: usize,
    policy: Policy,
    device: &Device,
) -> Result<(), TrainError> {
    let model = model.inference();
    let uploading = phase(Phase::Data);
    let input = blank_input(session.spec(), batch, device);
    let targets = targets(session.spec(), batch, device);
    drop(uploading);
    let _phase = phase(Phase::Eval);
    let mut pass = Pass::eval().with_policy(policy);
    if session.source.is_continuous() {
        pass = pass.with_carried(Carried::new());
    }
    let output = forward(&model, input, &mut pass, None)?;
    session.task.loss(&output, &targets)?.mul_scalar(batch as f32);
    session.task.correct(&output, &targets);
    Ok(())
}

pub(super) fn targets(spec: &SampleSpec, batch: usize, device: &Device) -> DeviceTargets {
    match spec.target {
        TargetSpec::Class { .. } => DeviceTargets::Classes(Tensor::zeros([batch], device)),
        TargetSpec::Values { features } => DeviceTargets::Values(Tensor::zeros([batch, features], device)),
        TargetSpec::Tokens { steps, .. } => DeviceTargets::Tokens(Tensor::zeros([batch, steps], device)),
    }
}

/// Notes moments of a recording by tensors made for it: identities on a capture device only grow.
#[derive(Clone)]
pub(super) struct Marks {
    device: Device,
    notes: Rc<RefCell<Vec<Note>>>,
}

impl Marks {
    fn new(device: &Device) -> Self {
        Self { device: device.clone(), notes: Rc::default() }
    }

    pub(super) fn note(&self, what: Noted) {
        let marker = Tensor::<1>::zeros([1], &self.device);
        if let Storage::Recorded(id) = Storage::of(&marker.into()) {
            self.notes.borrow_mut().push(Note { at: id.value(), what });
        }
    }

    fn take(&self) -> Vec<Note> {
        self.notes.take()
    }
}

impl Watch for Marks {
    fn holds(&mut self, category: Category, name: &str, tensor: &AnyTensor) {
        if let Storage::Recorded(id) = Storage::of(tensor) {
            self.note(Noted::Held { tensor: id.value(), category, name: name.to_owned() });
        }
    }
}
