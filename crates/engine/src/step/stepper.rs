use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Instant,
};

use burn::tensor::{Device, Tensor};
use oomph_config::Precision;
use oomph_core::{Bytes, Phase, on_device, phase};
use oomph_data::Batch;
use oomph_kernels::offload::{arrived, left_device};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Carried, Named, Stages};
use oomph_parallel::PipelineTrace;
use oomph_timeline::Category;

use super::{
    norms::{NormMeter, Norms},
    outcome::{DeviceUse, DevicesOutcome, StepOutcome},
    ranks::StepperRanks,
    run::StepRun,
    settings::StepSettings,
    state,
};
use crate::{
    EngineError,
    average::WeightAverage,
    gradients::GradientHook,
    layout::{Layout, SegmentOptions},
    loss_scale::LossScale,
    optimizer::Optimizer,
    part::{
        ModelPart, PartOutcome, PartSetup, Release, ReleaseRules, Segments, ShardedRelease, StepContext,
        StepUndo, UndoMode,
    },
    ranks::{Bucket, Gatherer, Reduction, Replicas, Shards, Times, Weights, bucket_ends, buckets},
    task::Task,
    transport::Transport,
    watch::Watch,
};

/// Runs optimizer steps: forward and backward of micro-batches, clipping, the optimizer.
pub struct Stepper {
    /// The model, on the autodiff device.
    pub model: Stages,
    /// The optimizer with its state.
    pub optimizer: Optimizer,
    /// The loss scale; `None` unless `memory.precision = "fp16"`.
    pub loss_scale: Option<LossScale>,
    /// The state that recurrent layers carry into the next step; `None` unless batches are continuous.
    pub carried: Option<Carried>,
    /// The average of the weights, with `train.ema` or `train.swa`.
    pub average: Option<WeightAverage>,
    pub(super) settings: StepSettings,
    pub(super) layout: Layout,
    /// One for each slot of the layout.
    segments: Vec<Segments>,
    /// The trained parameters of the segments of each slot.
    pub(super) buckets: Vec<Arc<[Bucket]>>,
    pub(super) ranks: StepperRanks,
    /// Whether operations are executed; otherwise they are recorded for a plan.
    pub(super) executes: bool,
    pub(super) watch: Option<Box<dyn Watch>>,
    pub(super) gradient_hook: Option<Arc<Mutex<GradientHook>>>,
    pub(super) norms: NormMeter,
    usage: Usage,
}

/// How long the devices of a layout were busy.
#[derive(Default)]
struct Usage {
    /// Seconds of each device.
    busy_seconds: Vec<f64>,
    /// Seconds of all forwards and backwards.
    seconds: f64,
}

impl Usage {
    fn count(&mut self, trace: &PipelineTrace) {
        self.seconds += trace.seconds();
        charge(Account::Host, || self.busy_seconds.resize(trace.devices.len(), 0.0));
        for (device, busy) in self.busy_seconds.iter_mut().enumerate() {
            *busy += trace.busy_seconds(device);
        }
    }
}

impl Stepper {
    /// A stepper of `model` on the devices of `layout`, with an optimizer without state.
    ///
    /// The model parts are copied into the memory of their devices.
    pub fn new(settings: StepSettings, layout: Layout, model: Stages, replicas: Replicas) -> Self {
        let model = layout.placed(model);
        Self::with_ranks(settings, layout, model, Some(replicas))
    }

    /// A stepper that records its steps for a plan. `layout` has one slot, the planned device.
    pub fn recorded(settings: StepSettings, layout: Layout, model: Stages) -> Self {
        // Each rank has a plan of its own.
        Self::with_ranks(settings, layout, model, None)
    }

    fn with_ranks(settings: StepSettings, layout: Layout, model: Stages, replicas: Option<Replicas>) -> Self {
        let executes = replicas.is_some();
        let bucket_ends = charge(Account::Host, || match settings.bucket_bytes {
            Some(bytes) => bucket_ends(&model, bytes),
            // Each stage takes its step by itself.
            None if settings.releases => (0..model.len()).collect(),
            None => Vec::new(),
        });
        let options = SegmentOptions {
            recompute: &settings.split.recompute,
            policy: &settings.policy,
            leading_frozen: settings.leading_frozen,
            bucket_ends: &bucket_ends,
            offloads: settings.offload.activations,
            chunks: settings.loss_chunk.is_some(),
            seeds: executes,
        };
        let segments = layout.segments(&model, options);
        let buckets = charge(Account::Host, || {
            let parts = layout.part_of_each(model.clone());
            let of_part =
                |(part, segments): (&Stages, &Segments)| buckets(part, segments.stages_of_each()).into();
            parts.iter().zip(&segments).map(of_part).collect::<Vec<_>>()
        });
        let average = settings.average.map(|rule| if executes { rule } else { rule.at_every_step() });
        let replicas = replicas.unwrap_or_else(Replicas::alone);
        let gatherer = settings.shard.map(|shard| Gatherer {
            shards: charge(Account::Host, || Shards::new(shard, &model)),
            replicas: replicas.clone(),
            device: layout.first().plain(),
            executes,
        });
        let ranks = StepperRanks::new(replicas, gatherer, settings.shares_statistics);
        Self {
            model,
            optimizer: Optimizer::new(&settings.optimizer, settings.policy.kernels)
                .offloading(settings.offload.optimizer)
                .of_shards(ranks.gatherer.as_ref().map(|gatherer| gatherer.shards.whole_shapes())),
            loss_scale: (settings.policy.precision == Precision::Fp16).then(LossScale::default),
            average: average.map(WeightAverage::new),
            carried: settings.is_continuous.then(Carried::new),
            settings,
            layout,
            segments,
            buckets,
            ranks,
            executes,
            watch: None,
            gradient_hook: None,
            // A plan has what the steps with norms need.
            norms: NormMeter::new(!executes),
            usage: Usage::default(),
        }
    }

    /// Calls `hook` with the gradients of every step from now on; `None` removes the hook.
    pub fn hook_gradients(&mut self, hook: Option<GradientHook>) {
        self.gradient_hook = hook.map(|hook| Arc::new(Mutex::new(hook)));
    }

    /// Whether to measure the norms of the steps from now on. On the CPU this takes no memory of the device; on a GPU it
    /// takes the buffers of one sum. It reads each gradient and each parameter once, and waits for the device.
    pub fn measure_norms(&mut self, is_on: bool) {
        self.norms.turn(is_on);
    }

    /// The norms of the last step; `None` unless they were [measured](Self::measure_norms), and for a skipped step.
    pub fn norms(&self) -> Option<Norms> {
        self.norms.norms()
    }

    /// Reports the tensors of every step to `watch` from now on; `None` removes it.
    pub fn watch(&mut self, watch: Option<Box<dyn Watch>>) {
        self.watch = watch;
    }

    /// Seconds in which gradients were in flight to other ranks, and seconds of them in which this rank waited. `None`
    /// if gradients were not reduced through host memory.
    pub fn all_reduce_seconds(&self) -> Option<[f64; 2]> {
        self.ranks.all_reduce_seconds
    }

    /// The devices and where the model is placed.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Copies restored parameters into the memory of their devices. If parameters are sharded, this rank keeps its shards.
    pub fn place_model(&mut self) {
        self.model = self.layout.placed(std::mem::take(&mut self.model));
        state::shard_parameters(self);
    }

    /// Sets the carried state, and copies it into the memory of the devices. Does nothing unless batches are
    /// continuous.
    pub fn place_carried(&mut self, carried: Carried) {
        let placed = self.layout.placed_carried(carried, &self.model);
        self.carried = self.carried.take().map(|_| placed);
    }

    /// The averaged model, if there is one, or else the model.
    pub(super) fn evaluated(&self) -> &Stages {
        self.average.as_ref().and_then(WeightAverage::model).unwrap_or(&self.model)
    }

    /// Reports all parameters and their averages to `watch`, each on its device.
    pub fn tell_parameters(&self, watch: &mut dyn Watch) {
        let owners = self.layout.owners();
        let first = self.layout.first().stages.start;
        let mut tell = |stage: usize, name: &str, tensor: &AnyTensor| {
            let slot = owners.iter().find(|slot| slot.stages.contains(&(first + stage)));
            on_device(slot.unwrap_or(&owners[0]).metered_as, || {
                watch.holds(Category::Parameters, name, tensor);
            });
        };
        self.model.visit(&mut |info, tensor| tell(info.stage, info.name, &tensor));
        for averages in self.average.iter().filter_map(WeightAverage::held) {
            averages.visit(&mut |info, tensor| {
                let name = charge(Account::Host, || format!("{}.average", info.name));
                tell(info.stage, &name, &tensor);
            });
        }
    }

    /// Bytes of optimizer state on the first device.
    pub fn state_bytes_here(&self) -> Bytes {
        charge(Account::Host, || {
            let stages = &self.layout.first().stages;
            let mut here = HashSet::new();
            self.model.visit(&mut |info, _| {
                if stages.contains(&info.stage) {
                    here.insert(info.name.to_owned());
                }
            });
            self.optimizer.state_bytes(|name| here.contains(name))
        })
    }

    /// The idle share of each device; empty for a single device.
    pub fn device_use(&self) -> Vec<DeviceUse> {
        let slots = self.layout.slots();
        if slots.len() == 1 {
            return Vec::new();
        }
        let Usage { busy_seconds, seconds } = &self.usage;
        let of = |slot: &crate::layout::DeviceSlot| {
            let busy = busy_seconds.get(slot.index).copied().unwrap_or_default();
            DeviceUse {
                stages: self.layout.is_split().then(|| slot.stages.clone()),
                idle_share: if *seconds > 0.0 { 1.0 - busy / seconds } else { 0.0 },
            }
        };
        slots.iter().map(of).collect()
    }

    /// Trains on one batch. `step` is the number of the step, from 0, and selects its random numbers. `lr` is the
    /// learning rate.
    ///
    /// The loss is the mean over the whole batch: each micro-batch is weighted by its [weight](Task::weight), by default its
    /// number of samples.
    /// Batch normalisation uses the statistics of each micro-batch.
    ///
    /// In fp16 the loss is multiplied by the [loss scale](Self::loss_scale), and the gradients are divided by it before
    /// clipping. A step with a gradient that is not finite is skipped: parameters, running statistics and optimizer
    /// state keep every bit.
    ///
    /// On the CPU a step that ends in an error leaves the model unchanged. There are two exceptions. If the optimizer exceeds the
    /// limit, or the last backward of a step that releases gradients does, the step is finished and the error is returned. If a
    /// step that releases gradients ends in another error, some stages may have taken it: the model must not be saved.
    ///
    /// # Errors
    /// If a stage refuses its input, if the task refuses the output, if memory runs out, if a device or rank fails, and
    /// if gradients overflow at the smallest loss scale.
    pub fn step(
        &mut self,
        batch: Batch,
        step: usize,
        lr: f64,
        task: &dyn Task,
    ) -> Result<StepOutcome, EngineError> {
        let outcome = self.step_unchecked(batch, step, lr, task)?;
        self.layout.check_after(step + 1)?;
        Ok(outcome)
    }

    /// As [`step`](Self::step), without the last check of the memory limit. The caller counts the finished step first
    /// and checks afterwards whether the optimizer exceeded the limit.
    ///
    /// # Errors
    /// The errors of [`step`](Self::step), except an optimizer that exceeds the limit.
    pub fn step_unchecked(
        &mut self,
        batch: Batch,
        step: usize,
        lr: f64,
        task: &dyn Task,
    ) -> Result<StepOutcome, EngineError> {
        self.norms.begin();
        let (samples, weight) = self.ranks.replicas.totals(batch.size, task.weight(&batch))?;
        if samples == 0 {
            return Ok(StepOutcome { loss: None, correct: None, samples, is_skipped: false });
        }
        let continues = batch.continues;
        let micro_batches = self.layout.micro_batches(batch, self.settings.split.micro_batch);
        let sizes: Vec<usize> =
            charge(Account::Host, || micro_batches.iter().map(|piece| piece.size).collect());
        let weights: Vec<f64> =
            charge(Account::Host, || micro_batches.iter().map(|piece| task.weight(piece)).collect());
        let sizes = self.ranks.with_idle_micro_batches(sizes)?;
        let peers = self.ranks.peers.clone();
        let context = StepContext {
            weight,
            peers: peers.as_ref(),
            ..self.context(step, continues, task, &sizes, &weights)
        };
        let releases = releases(self, lr);
        let ranks = &self.ranks;
        let mut reduction = ranks.replicas.reduce().then(|| {
            let (replicas, buckets) = (ranks.replicas.clone(), self.buckets[0].clone());
            Reduction::new(replicas, ranks.shards_of_gradients(), buckets, self.layout.first().plain())
                .releasing(self.settings.releases)
        });
        let run = StepRun {
            layout: &self.layout,
            segments: &self.segments,
            buckets: &self.buckets,
            releases,
            weights: gathered_weights(self),
            micro_batches: &micro_batches,
            undo: self.settings.undo,
            carried: self.carried.as_ref(),
            watch: self.watch.as_deref_mut(),
            reduction: reduction.as_mut(),
        };
        let done = run.run(std::mem::take(&mut self.model), context);
        charge(Account::Host, || drop(micro_batches));
        self.conclude(done, reduction, samples, step, lr)
    }

    fn context<'a>(
        &self,
        step: usize,
        continues: bool,
        task: &'a dyn Task,
        sizes: &'a [usize],
        weights: &'a [f64],
    ) -> StepContext<'a> {
        StepContext {
            key: self.settings.key.with(step as u64),
            policy: self.settings.policy,
            task,
            weight: weights.iter().sum(),
            weights,
            continues,
            loss_scale: self.loss_scale.map(|loss_scale| loss_scale.scale()),
            loss_chunk: self.settings.loss_chunk,
            peers: None,
            sizes,
            start: Instant::now(),
        }
    }

    /// Reduces the gradients over all ranks and ends the step. A failed or skipped step is undone.
    fn conclude(
        &mut self,
        done: DevicesOutcome,
        reduction: Option<Reduction>,
        samples: usize,
        step: usize,
        lr: f64,
    ) -> Result<StepOutcome, EngineError> {
        let DevicesOutcome { model, undo, mut releases, mut gradients, loss, correct, left, trace } = done;
        self.model = model;
        let mut outcome = StepOutcome { loss, correct, samples, is_skipped: false };
        let reduced = trace.and_then(|trace| {
            if let Some(reduction) = reduction {
                let sums = gradients.pop().unwrap_or_default();
                let watch = self.watch.as_deref_mut();
                let (model, buckets) = (&mut self.model, &self.buckets[0]);
                let (sums, times) = reduced(model, buckets, reduction, sums, releases.first_mut(), watch)?;
                self.ranks.count(times);
                gradients.push(sums);
                // A rank without samples has no loss.
                let plain = self.layout.first().plain();
                outcome.loss.get_or_insert_with(|| Tensor::zeros([1], &plain));
            }
            Ok(trace)
        });
        let reduced = reduced.and_then(|trace| take_back(self, releases).map(|()| trace));
        // If a device failed, its gradients are freed before the step is undone.
        let finished = reduced.and_then(|trace| {
            let _phase = phase(Phase::Step);
            outcome.is_skipped = !self.finish(gradients, left, step, lr)?;
            self.usage.count(&trace);
            Ok(outcome)
        });
        if finished.as_ref().map_or(true, |outcome| outcome.is_skipped) {
            for (mut undo, slot) in undo.into_iter().zip(self.layout.owners()) {
                undo.take_back(&mut self.model, &slot.tracked);
            }
        }
        if finished.is_ok() {
            let _phase = phase(Phase::Step);
            self.tell_step_end();
        }
        finished
    }

    fn tell_step_end(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        self.tell_parameters(watch.as_mut());
        watch.offloaded(Category::OptimizerState, self.optimizer.offloaded_bytes());
        watch.boundary("");
        self.watch = Some(watch);
    }

    /// Records a step of the one device of the layout, over a transport of blank tensors. It calls the functions that
    /// execution calls.
    ///
    /// `number` is the number of the step, from 0. `sizes` are the samples of its micro-batches, `samples` those of the
    /// whole batch.
    ///
    /// # Errors
    /// If a stage refuses its input, or the task the output.
    pub fn record_step<T: Transport>(
        &mut self,
        transport: T,
        number: usize,
        samples: usize,
        sizes: &[usize],
        task: &dyn Task,
    ) -> Result<(), EngineError> {
        const LR: f64 = 0.1;
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64).collect();
        let mut releases = releases(self, LR);
        let slot = self.layout.first();
        let (plain, has_optimizer) = (slot.plain(), slot.role.has_optimizer());
        let setup = PartSetup {
            slot,
            segments: &self.segments[0],
            buckets: &self.buckets[0],
            release: releases.pop(),
            weights: gathered_weights(self),
            transport,
            context: StepContext {
                // No weight is known before there is data. What counts is whether the micro-batch is the whole batch.
                weight: samples as f64,
                ..self.context(number, number > 0, task, sizes, &weights)
            },
            model: std::mem::take(&mut self.model),
            undo: StepUndo::new(UndoMode::Nothing),
            carried: self.carried.clone(),
        };
        let mut reduction = self.settings.bucket_bytes.map(|_| {
            let (replicas, buckets) = (self.ranks.replicas.clone(), self.buckets[0].clone());
            Reduction::recorded(replicas, self.ranks.shards_of_gradients(), buckets, plain.clone())
                .releasing(self.settings.releases)
        });
        let part = ModelPart::new(setup, self.watch.as_deref_mut(), reduction.as_mut());
        let PartOutcome { model, mut release, mut gradients, left, spans, .. } = part.run();
        self.model = model;
        spans?;
        if let Some(reduction) = reduction {
            let watch = self.watch.as_deref_mut();
            let buckets = &self.buckets[0];
            (gradients, _) =
                reduced(&mut self.model, buckets, reduction, gradients, release.as_mut(), watch)?;
        }
        take_back(self, release)?;
        if has_optimizer {
            let left = carried_of_all(left, samples, &plain);
            let _phase = phase(Phase::Step);
            self.finish(vec![gradients], left, number, LR)?;
            self.tell_step_end();
        } else {
            // It goes to the coordinator. What stays tells the shapes.
            left.iter().flat_map(|left| left.tensors().values().cloned()).for_each(left_device);
            self.carried = self.carried.take().map(|_| left.into_iter().next().unwrap_or_default());
        }
        Ok(())
    }
}

/// What releases gradients, for each slot in order; empty unless they are released.
fn releases(stepper: &mut Stepper, lr: f64) -> Vec<Release> {
    let Stepper { settings, buckets, optimizer, executes, gradient_hook, norms, ranks, .. } = stepper;
    if !settings.releases {
        return Vec::new();
    }
    charge(Account::Host, || {
        let (clip, kernels) = (settings.optimizer.clip, settings.policy.kernels);
        let rules = ReleaseRules { lr, clip, kernels, executes: *executes, hook: gradient_hook.clone() };
        let of_slot = |buckets: &Arc<[Bucket]>| {
            let own: HashSet<_> = buckets.iter().flatten().map(|(name, _)| name.as_str()).collect();
            let optimizer = optimizer.split_off(|name| own.contains(name));
            let (squares, rules) = (norms.squares(), rules.clone());
            let sharded = ranks
                .gatherer
                .is_some()
                .then(|| ShardedRelease { sums: ranks.sums(), step: ranks.shard_step() });
            Release { optimizer, squares, rules, sharded }
        };
        buckets.iter().map(of_slot).collect()
    })
}

/// Takes the state of the optimizer back, and the squares of the released gradients. Parameters that are underway arrive.
fn take_back(stepper: &mut Stepper, releases: impl IntoIterator<Item = Release>) -> Result<(), EngineError> {
    for mut release in releases {
        let ended = release.end(&mut stepper.model);
        let Release { optimizer, squares, .. } = release;
        stepper.optimizer.join(optimizer);
        if let Some(squares) = squares {
            stepper.norms.add(stepper.ranks.sums().map_or(Ok(squares), |sums| sums.of(squares))?);
        }
        ended?;
    }
    Ok(())
}

/// What gathers parameters in a step, if they are sharded.
fn gathered_weights(stepper: &Stepper) -> Option<Weights> {
    let Stepper { ranks, segments, model, .. } = stepper;
    let gatherer = ranks.of_parameters()?;
    let weights = || Weights::new(gatherer.clone(), segments[0].stages_of_each().collect(), model);
    Some(charge(Account::Host, weights))
}

/// The carried state of all samples of a step: what the recorded micro-batches left, and blanks for the samples of
/// replicas and of micro-batches that are not recorded.
fn carried_of_all(mut left: Vec<Carried>, samples: usize, device: &Device) -> Carried {
    let rows = |carried: &Carried| carried.tensors().values().next().map_or(0, |tensor| tensor.dims()[0]);
    let missing = samples.saturating_sub(left.iter().map(rows).sum());
    if missing > 0 {
        let blank = |(name, tensor): (&String, &AnyTensor)| {
            let mut shape = tensor.dims();
            shape[0] = missing;
            (name.clone(), arrived(&shape, tensor.dtype(), device))
        };
        let blanks = left.first().map(|left| left.tensors().iter().map(blank).collect());
        left.extend(blanks);
    }
    Carried::joined(left)
}

/// Finishes an all-reduce. The sums are released, or returned.
fn reduced(
    model: &mut Stages,
    buckets: &[Bucket],
    reduction: Reduction,
    sums: Named<AnyTensor>,
    release: Option<&mut Release>,
    mut watch: Option<&mut (dyn Watch + 'static)>,
) -> Result<(Named<AnyTensor>, Times), EngineError> {
    let Some(release) = release else { return reduction.finish(sums, None) };
    reduction.finish(
        sums,
        Some(&mut |index, sums| release.step(model, &buckets[index], sums, watch.as_deref_mut())),
    )
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepper")
            .field("model", &self.model)
            .field("optimizer", &self.optimizer)
            .field("loss_scale", &self.loss_scale)
            .finish_non_exhaustive()
    }
}
