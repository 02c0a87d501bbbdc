mod several;

use std::{ops::Range, sync::Arc};

use burn::tensor::{Device, Tensor};
use oomph_config::{Clip, DeviceName, Precision};
use oomph_core::{Key, Phase, phase};
use oomph_data::Batch;
use oomph_memory::{
    Account, LaneKind, charge,
    record::{LaneGuard, lane},
};
use oomph_model::{AnyTensor, Carried, ModelError, Named, Pass, Peers, Policy, Stages};

use self::several::Several;
use crate::{
    DeviceTargets, LoadedWeights, LossScale, Optimizer, Session, Task, TrainError, Watch, backend,
    clip::clip_parts,
    gradients::{accumulate, each},
    loss_scale, out_of_memory,
    parallel::{Bucket, Reduction, Replicas, buckets},
    planning::{Choice, Occasion},
    segments::{Passed, Position, Segments},
    stretch::{Comparison, Forwarded, Stretch},
    tensorboard::Histogram,
    unfinished::{Keeping, Unfinished},
    upload::upload,
    watch,
};

/// What lanes call the optimizer's work.
const STEP: &str = "step";

/// One optimizer step at a time: micro-batches forward and backward, clipping, the optimizer.
pub struct Stepper {
    /// The model, on the autodiff device.
    pub model: Stages,
    /// The optimizer with its state.
    pub optimizer: Optimizer,
    /// The file that the model started from, where it is new and there is one.
    pub weights: Option<LoadedWeights>,
    /// What the loss is multiplied by before backward: with `memory.precision = "fp16"` alone.
    pub loss_scale: Option<LossScale>,
    /// What recurrent layers go on from in the next batch: where samples follow one another alone.
    pub carried: Option<Carried>,
    device: Device,
    key: Key,
    micro_batch: usize,
    policy: Policy,
    segments: Segments,
    replicas: Replicas,
    /// Those that batch normalisation shares its statistics with.
    peers: Option<Arc<dyn Peers>>,
    /// What of the gradients travels together, by segment, where there are other replicas.
    buckets: Arc<[Bucket]>,
    clip: Option<Clip>,
    /// Seconds in which gradients were on their way, and those in which that was waited for, where somebody knows.
    reducing: Option<[f64; 2]>,
    /// Where several devices of this process share the work.
    several: Option<Several>,
    /// Whether operations are executed, so that there is something to read. Else they are recorded.
    executes: bool,
    /// How a step is taken back that ends in an error or is skipped.
    keeping: Keeping,
    watch: Option<Box<dyn Watch>>,
    /// The distributions of the gradients of the step that is being done, by parameter, where they are wanted.
    histograms: Option<Vec<(String, Histogram)>>,
}

/// What one step gave, still on the device: reading it waits for the device.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The mean loss over the samples, one element. `None` for a batch without samples.
    pub loss: Option<Tensor<1>>,
    /// How many samples the model was right about, one element, where the task tells.
    pub correct: Option<Tensor<1>>,
    /// Samples of the batch.
    pub samples: usize,
    /// Whether a gradient was not finite, so that the step changed the loss scale and nothing else. The loss need not be
    /// finite then.
    pub is_skipped: bool,
}

/// A micro-batch where the model computes.
#[derive(Debug)]
pub(crate) struct DeviceBatch {
    pub(crate) input: AnyTensor,
    pub(crate) targets: DeviceTargets,
    pub(crate) size: usize,
}

/// What is the same for all micro-batches of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    /// The step's number: it names the randomness.
    pub(crate) step: usize,
    /// The learning rate.
    pub(crate) lr: f64,
    /// Samples of all micro-batches together.
    pub(crate) samples: usize,
    /// Whether each sample goes on where the one at its place in the step before it ended.
    pub(crate) continues: bool,
    pub(crate) task: &'a dyn Task,
}

/// What one micro-batch gave.
struct MicroOutcome {
    /// Weighted, off the graph.
    loss: Option<Tensor<1>>,
    /// How many samples the model was right about.
    correct: Option<Tensor<1>>,
    gradients: Named<AnyTensor>,
    carried: Option<Carried>,
}

impl StepOutcome {
    /// Of a step that saw nothing.
    fn nothing(samples: usize) -> Self {
        Self { loss: None, correct: None, samples, is_skipped: false }
    }
}

impl Stepper {
    /// A stepper with a new model, which has the weights of `model.weights` where that is set, and an optimizer without
    /// state.
    ///
    /// # Errors
    /// Where the model cannot be made, or its weights not be read, and where memory runs out.
    pub fn new(session: &Session) -> Result<Self, TrainError> {
        let _phase = phase(Phase::Init);
        let (model, weights) = session.off_device(|| session.initial_model())?;
        Ok(Self { weights, ..Self::of(session, model)? })
    }

    /// A stepper whose model is about to be restored: drawn, without looking for weights.
    ///
    /// # Errors
    /// Where the model cannot be made, and where memory runs out.
    pub(crate) fn to_restore(session: &Session) -> Result<Self, TrainError> {
        let _phase = phase(Phase::Init);
        Self::of(session, session.off_device(|| session.build())?)
    }

    fn of(session: &Session, model: Stages) -> Result<Self, TrainError> {
        out_of_memory::check()?;
        let backend = backend(session);
        let occasion = Occasion {
            batch: session.share_of(session.largest_train_batch()),
            backend,
            limit_bytes: session.limit_bytes,
        };
        let choice = session.choice(occasion)?;
        let (device, policy) = (session.tracked(&session.device), session.policy(backend));
        let mut model = model;
        let several = Several::new(session, &mut model, &choice, &policy)?;
        Ok(Self { several, ..Self::with_model(session, model, device, (policy, choice), true) })
    }

    /// A stepper whose steps are recorded on `device` instead of executed.
    pub(crate) fn recorded(
        session: &Session,
        model: Stages,
        device: Device,
        policy: Policy,
        choice: Choice,
    ) -> Self {
        Self::with_model(session, model, device, (policy, choice), false)
    }

    fn with_model(
        session: &Session,
        model: Stages,
        device: Device,
        (policy, choice): (Policy, Choice),
        executes: bool,
    ) -> Self {
        // A recording device has no generator.
        let seeded = executes.then(|| device.clone());
        // What is recorded is one replica's step: the others are other devices'.
        let (replicas, peers) = match executes {
            true => (session.replicas.clone(), session.peers()),
            false => (Replicas::alone(), None),
        };
        let ends = session.bucket_ends(&model);
        let segments = Segments::new(&model, choice.recompute, &policy, seeded, &ends, Position::default());
        let buckets = buckets(&model, segments.stages_of_each()).into();
        let key = Key::new(session.config.train.seed).with_name("step");
        Self {
            model,
            replicas: replicas.clone(),
            peers,
            buckets,
            weights: None,
            segments,
            optimizer: Optimizer::new(&session.config.optimizer, policy.kernels),
            device,
            // Rank 0 draws what one alone does.
            key: if replicas.rank() == 0 { key } else { key.with_name("rank").with(replicas.rank() as u64) },
            micro_batch: choice.micro_batch,
            policy,
            clip: session.config.optimizer.clip,
            reducing: None,
            several: None,
            loss_scale: (policy.precision == Precision::Fp16).then(LossScale::default),
            carried: session.source.is_continuous().then(Carried::new),
            executes,
            keeping: match session.config.device.devices[0] {
                _ if !executes => Keeping::Nothing,
                DeviceName::Cpu => Keeping::Copies,
                // A GPU that failed is not trusted with what it holds, but one whose gradients overflowed is.
                DeviceName::Cuda(_) if policy.precision == Precision::Fp16 => Keeping::References,
                DeviceName::Cuda(_) => Keeping::Nothing,
            },
            watch: None,
            histograms: None,
        }
    }

    /// Whether the distributions of gradients are wanted of the next step.
    pub(crate) fn take_histograms_next(&mut self, are_wanted: bool) {
        self.histograms = are_wanted.then(Vec::new);
    }

    /// Those of the last step by parameter, as they were before they were clipped; `None` where they were not wanted.
    pub(crate) fn taken_histograms(&mut self) -> Option<Vec<(String, Histogram)>> {
        self.histograms.take()
    }

    /// Seconds in which gradients were on their way to other replicas, and those of them in which this one waited for it.
    pub(crate) fn all_reduce_seconds(&self) -> Option<[f64; 2]> {
        self.reducing
    }

    /// Lets `watch` be told of the tensors of every step from now on; or nobody.
    pub fn watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.watch = watch;
    }

    /// Trains on one batch. `step` names the randomness, `lr` is the learning rate.
    ///
    /// The gradient is that of the mean loss over the whole batch: each micro-batch weighs by its number of samples.
    /// Batch normalisation uses the statistics of each micro-batch.
    ///
    /// In half precision the gradients are those of the loss times the [scale](Self::loss_scale), and are divided by it
    /// before they are clipped. Where one of them is not finite the step is skipped: parameters, running statistics and
    /// the optimizer's state stay as they were, to the bit.
    ///
    /// On the CPU a step that ends in an error leaves the model as it was before it, unless memory runs out in the
    /// optimizer: what crosses the limit there is told by an error too, and the step is done.
    ///
    /// # Errors
    /// Where a stage cannot take its activation, or the task the output, where memory runs out, and where gradients
    /// overflow at the smallest loss scale.
    pub fn step(
        &mut self,
        batch: Batch,
        step: usize,
        lr: f64,
        task: &dyn Task,
    ) -> Result<StepOutcome, TrainError> {
        let outcome = self.step_unchecked(batch, step, lr, task)?;
        out_of_memory::check()?;
        Ok(outcome)
    }

    /// As [`step`](Self::step), but for a caller that counts the finished step before it looks whether the optimizer
    /// went above the limit.
    pub(crate) fn step_unchecked(
        &mut self,
        batch: Batch,
        step: usize,
        lr: f64,
        task: &dyn Task,
    ) -> Result<StepOutcome, TrainError> {
        let samples = self.replicas.samples(batch.size)?;
        if samples == 0 {
            return Ok(StepOutcome::nothing(samples));
        }
        let continues = batch.continues;
        let context = StepContext { step, lr, samples, continues, task };
        if self.several.is_some() {
            return self.step_on_several(batch, context);
        }
        let mut micro_batches = charge(Account::Host, || batch.split(self.micro_batch));
        // A replica may have none of a small last batch: it has nothing to add then.
        micro_batches.retain(|batch| batch.size > 0);
        let device = self.device.clone();
        let micro_batches = micro_batches.into_iter().map(|batch| {
            let (input, targets) = upload(&batch, &device);
            DeviceBatch { input, targets, size: batch.size }
        });
        self.run(micro_batches, context)
    }

    /// The step itself: what the trainer executes and the planner records.
    pub(crate) fn run(
        &mut self,
        micro_batches: impl ExactSizeIterator<Item = DeviceBatch>,
        context: StepContext<'_>,
    ) -> Result<StepOutcome, TrainError> {
        let mut unfinished = Unfinished::new(self.keeping);
        let done = self.forward_backward_step(micro_batches, context, &mut unfinished);
        if done.is_err() {
            unfinished.take_back(&mut self.model, &self.device);
        }
        done
    }

    fn forward_backward_step(
        &mut self,
        mut micro_batches: impl ExactSizeIterator<Item = DeviceBatch>,
        context: StepContext<'_>,
        unfinished: &mut Unfinished,
    ) -> Result<StepOutcome, TrainError> {
        let mut outcome = StepOutcome::nothing(context.samples);
        let mut gradients = Named::new();
        let (mut left, mut samples) = (Vec::new(), 0);
        let (replicas, buckets) = (self.replicas.clone(), self.buckets.clone());
        let mut reduction =
            replicas.reduce().then(|| Reduction::new(&replicas, &buckets, self.device.clone().inner()));
        let count = micro_batches.len();
        for index in 0..count {
            let uploading = (phase(Phase::Data), self.lane(LaneKind::Data, "upload", Some(index)));
            let Some(micro_batch) = micro_batches.next() else { break };
            drop(uploading);
            out_of_memory::check()?;
            let rows = samples..samples + micro_batch.size;
            samples = rows.end;
            // What backward has passed for the last time in this step goes to the other replicas at once.
            let mut passed = |segment: usize, newest: &mut Named<AnyTensor>| match &mut reduction {
                Some(reduction) if index + 1 == count => reduction.pass(segment, &mut gradients, newest),
                _ => Ok(()),
            };
            let MicroOutcome { loss, correct, gradients: more, carried } =
                self.forward_backward(micro_batch, (index, rows), context, unfinished, &mut passed)?;
            {
                let _phase = phase(Phase::Backward);
                let _lane = self.lane(LaneKind::Backward, "backward", Some(index));
                accumulate(&mut gradients, more);
            }
            left.extend(carried);
            outcome.loss = loss.map(|loss| sum(outcome.loss.take(), loss));
            outcome.correct = correct.map(|correct| sum(outcome.correct.take(), correct));
        }
        if let Some(reduction) = reduction {
            let (reduced, times) = reduction.finish(gradients)?;
            gradients = reduced;
            if let Some(times) = times {
                let before = self.reducing.unwrap_or_default();
                self.reducing = Some([0, 1].map(|of| before[of] + times[of].as_secs_f64()));
            }
            // A rank without samples has seen nothing.
            let device = self.device.clone().inner();
            outcome.loss.get_or_insert_with(|| Tensor::zeros([1], &device));
        }
        let _phase = phase(Phase::Step);
        if let Some(watch) = &mut self.watch {
            watch::gradients(watch.as_mut(), &gradients);
        }
        outcome.is_skipped = !self.finish(vec![gradients], Carried::joined(left), context)?;
        if outcome.is_skipped {
            unfinished.take_back(&mut self.model, &self.device);
        }
        if let Some(watch) = &mut self.watch {
            watch::parameters(watch.as_mut(), &self.model);
        }
        self.boundary();
        Ok(outcome)
    }

    /// What follows on the gradients, those of each device: unscaling, clipping, the optimizer. Whether they were good:
    /// where they overflowed the step is skipped.
    fn finish(
        &mut self,
        gradients: Vec<Named<AnyTensor>>,
        left: Carried,
        context: StepContext<'_>,
    ) -> Result<bool, TrainError> {
        let preparing = self.lane(LaneKind::Step, STEP, None);
        let Some(mut gradients) = self.unscaled(gradients, context)? else { return Ok(false) };
        if let Some(taken) = &mut self.histograms {
            gradients.iter().try_for_each(|gradients| histograms(gradients, taken))?;
        }
        if let Some(limit) = self.clip {
            gradients = clip_parts(gradients, limit)?;
        }
        drop(preparing);
        match &self.several {
            Some(several) => {
                let model = std::mem::take(&mut self.model);
                self.model = several.optimize((&mut self.optimizer, context.lr), model, gradients);
            }
            None => {
                let _lane = self.lane(LaneKind::Step, STEP, None);
                let gradients = gradients.into_iter().flatten().collect();
                self.optimizer.step(context.lr, &mut self.model, gradients);
            }
        }
        // A step that is skipped leaves this, too, as it was: what overflowed may have gone into it.
        self.carried = self.carried.take().map(|_| left);
        Ok(true)
    }

    /// The gradients of the loss itself, of those that backward gave; `None` where they overflowed, so that the step is
    /// skipped. Changes the scale for the next step.
    fn unscaled(
        &mut self,
        gradients: Vec<Named<AnyTensor>>,
        context: StepContext<'_>,
    ) -> Result<Option<Vec<Named<AnyTensor>>>, TrainError> {
        let Some(loss_scale) = &mut self.loss_scale else { return Ok(Some(gradients)) };
        let checks: Vec<_> = gradients.iter().map(loss_scale::zero_if_finite).collect();
        let scale = loss_scale.scale();
        // Of recorded gradients nobody knows. What a good step takes is more than what a skipped one does.
        let mut checks = checks.into_iter().filter(|_| self.executes);
        if !checks
            .try_fold(true, |finite, check| Ok::<_, TrainError>(finite & loss_scale::is_finite(check)?))?
        {
            if loss_scale.overflowed() {
                return Ok(None);
            }
            let StepContext { step, lr, .. } = context;
            return Err(TrainError::LossScale { step: step + 1, scale, lr, checkpoint: None });
        }
        loss_scale.succeeded();
        let unscaled = |gradients| each(gradients, |gradient| gradient.scale(scale.recip()));
        Ok(Some(gradients.into_iter().map(unscaled).collect()))
    }

    /// What the device does from now on. Where steps are recorded for a plan it does nothing.
    fn lane(&self, kind: LaneKind, name: &'static str, number: Option<usize>) -> Option<LaneGuard> {
        self.executes.then(|| lane(kind, name, number))
    }

    fn boundary(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.boundary("");
        }
    }

    /// Forward and backward of the micro-batch at `index`, which is the samples `rows` of the batch.
    fn forward_backward(
        &mut self,
        batch: DeviceBatch,
        (index, rows): (usize, Range<usize>),
        context: StepContext<'_>,
        unfinished: &mut Unfinished,
        passed: &mut Passed<'_>,
    ) -> Result<MicroOutcome, TrainError> {
        let key = self.key.with(context.step as u64).with(index as u64);
        let DeviceBatch { input, targets, size } = batch;
        let mut pass = Pass::train(key).with_policy(self.policy).with_peers(self.peers.clone());
        if let Some(carried) = &self.carried {
            pass = pass.with_carried(if context.continues { carried.rows(rows) } else { Carried::new() });
        }
        let comparison = Comparison {
            task: context.task,
            targets,
            weight: size as f32 / context.samples as f32,
            loss_scale: self.loss_scale.map(|loss_scale| loss_scale.scale()),
        };
        let executes = self.executes;
        let does = |kind, name| executes.then(|| lane(kind, name, Some(index)));
        let mut stretch = Stretch {
            model: &mut self.model,
            segments: &self.segments,
            unfinished,
            watch: self.watch.as_deref_mut(),
        };
        let forward = does(LaneKind::Forward, "forward");
        let Forwarded { loss, correct, carried, in_flight, .. } =
            stretch.forward(input, pass, Some(comparison))?;
        drop(forward);
        let _lane = does(LaneKind::Backward, "backward");
        let gradients = stretch.backward(in_flight, None, passed)?.gradients;
        Ok(MicroOutcome { loss, correct, gradients, carried })
    }
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper")
            .field("model", &self.model)
            .field("optimizer", &self.optimizer)
            .field("loss_scale", &self.loss_scale)
            .field("micro_batch", &self.micro_batch)
            .finish_non_exhaustive()
    }
}

/// One tensor at a time, so that the host holds no more than the largest of them.
fn histograms(gradients: &Named<AnyTensor>, taken: &mut Vec<(String, Histogram)>) -> Result<(), ModelError> {
    charge(Account::Host, || {
        for (name, gradient) in gradients {
            taken.extend(Histogram::of_tensor(gradient)?.map(|histogram| (name.clone(), histogram)));
        }
        Ok(())
    })
}

fn sum(so_far: Option<Tensor<1>>, more: Tensor<1>) -> Tensor<1> {
    match so_far {
        Some(so_far) => so_far + more,
        None => more,
    }
}
