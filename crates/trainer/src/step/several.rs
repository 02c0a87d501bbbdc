//! A step on several devices of this process.

use std::{collections::HashSet, ops::Range};

use oomph_core::{Bytes, Phase, on_device, phase};
use oomph_data::Batch;
use oomph_memory::{Account, Category, LaneKind, charge, record::lane};
use oomph_model::{AnyTensor, Carried, Named, Policy, Stages};
use oomph_parallel::Course;

use super::{STEP, StepContext, StepOutcome, Stepper};
use crate::{
    Optimizer, Session, TrainError, Watch,
    evaluate::Lying,
    parallel::{
        PartContext, Place, SeveralDone,
        chain::{Chain, ChainStep},
        coordinator::{self, CoordinatedStep, Coordinator},
    },
    planning::Choice,
    segments::Segments,
    watch,
};

/// How the devices share the work.
pub(super) enum Sharers {
    /// Each has a part of the model.
    Chain(Chain),
    /// Each has a replica, which the first of them hands out.
    Coordinator(Coordinator),
}

/// The devices, and what each of them does.
pub(super) struct Several {
    sharers: Sharers,
    segments: Vec<Segments>,
    /// Seconds that each device computed, and those of all forwards and backwards.
    busy_seconds: Vec<f64>,
    seconds: f64,
}

/// One of several devices.
pub(crate) struct PartMetrics {
    /// Where it has a part of the model.
    pub(crate) stages: Option<Range<usize>>,
    /// The share of forward and backward in which it waited.
    pub(crate) idle_share: f64,
}

impl Several {
    /// Puts the model where the session says, where it says that there are several devices to share the work.
    pub(super) fn new(
        session: &Session,
        model: &mut Stages,
        choice: &Choice,
        policy: &Policy,
    ) -> Result<Option<Self>, TrainError> {
        let (sharers, segments) = if let Some(chain) = session.open_chain()? {
            *model = chain.placed(std::mem::take(model));
            let segments = chain.segments(model, &choice.recompute, policy);
            (Sharers::Chain(chain), segments)
        } else if let Some(coordinator) = session.open_coordinator()? {
            let segments = coordinator.segments(model, &choice.recompute, policy);
            (Sharers::Coordinator(coordinator), segments)
        } else {
            return Ok(None);
        };
        let busy_seconds = vec![0.0; segments.len()];
        Ok(Some(Self { sharers, segments, busy_seconds, seconds: 0.0 }))
    }

    fn places(&self) -> &[Place] {
        match &self.sharers {
            Sharers::Chain(chain) => &chain.places,
            Sharers::Coordinator(coordinator) => &coordinator.places,
        }
    }

    /// The batch in pieces that go through the devices one after the other.
    fn micro_batches(&self, batch: Batch, micro_batch: usize) -> Vec<Batch> {
        let samples = match &self.sharers {
            Sharers::Chain(_) => micro_batch,
            Sharers::Coordinator(Coordinator { places, share, .. }) => {
                coordinator::round(batch.size, micro_batch, places.len(), *share)
            }
        };
        charge(Account::Host, || batch.split(samples))
    }

    /// Tells of the parameters, each on the device where it lies: of replicas it is the first that is gone on with.
    fn tell_parameters(&self, watch: &mut dyn Watch, model: &Stages) {
        model.visit(&mut |info, tensor| {
            let place = self.places().iter().find(|place| place.stages.contains(&info.stage));
            on_device(place.map_or(0, |place| place.index), || {
                watch.holds(Category::Parameters, info.name, &tensor);
            });
        });
    }

    fn count(&mut self, course: &Course) {
        self.seconds += course.seconds();
        for (device, busy) in self.busy_seconds.iter_mut().enumerate() {
            *busy += course.busy_seconds(device);
        }
    }

    /// The optimizer, on each device that has parameters of its own.
    pub(super) fn optimize(
        &self,
        (optimizer, lr): (&mut Optimizer, f64),
        mut model: Stages,
        gradients: Vec<Named<AnyTensor>>,
    ) -> Stages {
        match &self.sharers {
            Sharers::Chain(chain) => {
                let places = chain.places.iter().zip(chain.cut(model)).zip(gradients);
                let done = places.map(|((place, mut part), gradients)| {
                    place.run(|| {
                        let _lane = lane(LaneKind::Step, STEP, None);
                        optimizer.step(lr, &mut part, gradients);
                    });
                    part
                });
                Chain::joined(done.collect::<Vec<_>>())
            }
            Sharers::Coordinator(_) => {
                let _lane = lane(LaneKind::Step, STEP, None);
                optimizer.step(lr, &mut model, gradients.into_iter().flatten().collect());
                model
            }
        }
    }
}

impl Stepper {
    /// Puts parameters that were restored where they belong.
    pub(crate) fn place_again(&mut self) {
        if let Some(Several { sharers: Sharers::Chain(chain), .. }) = &self.several {
            self.model = chain.placed(std::mem::take(&mut self.model));
        }
    }

    /// Puts what recurrent layers carried there too.
    pub(crate) fn place_carried(&mut self, carried: Carried) {
        let placed = match self.chain() {
            Some(chain) => chain.placed_carried(&carried, &self.model),
            None => carried,
        };
        self.carried = self.carried.take().map(|_| placed);
    }

    /// Tells of the parameters, each on the device where it lies.
    pub(crate) fn tell_parameters(&self, watch: &mut dyn Watch) {
        match &self.several {
            Some(several) => several.tell_parameters(watch, &self.model),
            None => watch::parameters(watch, &self.model),
        }
    }

    /// Tells whoever watches of the gradients of each device.
    fn tell_gradients(&mut self, gradients: &[Named<AnyTensor>]) {
        if let (Some(watch), Some(several)) = (&mut self.watch, &self.several) {
            for (place, gradients) in several.places().iter().zip(gradients) {
                on_device(place.index, || watch::gradients(watch.as_mut(), gradients));
            }
        }
    }

    /// Tells whoever watches of the parameters as the step left them.
    fn tell_again(&mut self) {
        if let (Some(watch), Some(several)) = (&mut self.watch, &self.several) {
            several.tell_parameters(watch.as_mut(), &self.model);
        }
    }

    /// The devices that the model is cut over, where it is.
    fn chain(&self) -> Option<&Chain> {
        match &self.several {
            Some(Several { sharers: Sharers::Chain(chain), .. }) => Some(chain),
            _ => None,
        }
    }

    /// What the optimizer keeps on the first device.
    pub(crate) fn state_bytes_here(&self) -> Bytes {
        let Some(chain) = self.chain() else { return self.optimizer.state_bytes(|_| true) };
        charge(Account::Host, || {
            let (stages, mut here) = (chain.places[0].stages.clone(), HashSet::new());
            self.model.visit(&mut |info, _| {
                if stages.contains(&info.stage) {
                    here.insert(info.name.to_owned());
                }
            });
            self.optimizer.state_bytes(|name| here.contains(name))
        })
    }

    /// The model where it lies.
    pub(crate) fn lying(&self) -> Lying<'_> {
        Lying { model: &self.model, chain: self.chain() }
    }

    /// The devices that share the work; none where one does it.
    pub(crate) fn parts(&self) -> Vec<PartMetrics> {
        let Some(several) = &self.several else { return Vec::new() };
        let is_cut = matches!(several.sharers, Sharers::Chain(_));
        let busy = several.places().iter().zip(&several.busy_seconds);
        let part = |(place, busy): (&Place, &f64)| PartMetrics {
            stages: is_cut.then(|| place.stages.clone()),
            idle_share: if several.seconds > 0.0 { 1.0 - busy / several.seconds } else { 0.0 },
        };
        busy.map(part).collect()
    }

    /// Forward and backward of all micro-batches on all devices, then the optimizer.
    pub(super) fn step_on_several(
        &mut self,
        batch: Batch,
        context: StepContext<'_>,
    ) -> Result<StepOutcome, TrainError> {
        // Who calls has seen that there are several.
        let Some(several) = &self.several else { return Ok(StepOutcome::nothing(context.samples)) };
        let micro_batches = several.micro_batches(batch, self.micro_batch);
        let of_parts = PartContext {
            key: self.key.with(context.step as u64),
            policy: self.policy,
            task: context.task,
            samples: context.samples,
            continues: context.continues,
            loss_scale: self.loss_scale.map(|loss_scale| loss_scale.scale()),
        };
        let (model, carried) = (std::mem::take(&mut self.model), self.carried.as_ref());
        let (segments, keeping) = (&several.segments, self.keeping);
        let done = match &several.sharers {
            Sharers::Chain(chain) => {
                let micro_batches = &micro_batches;
                ChainStep { chain, segments, micro_batches, keeping, context: of_parts }.run(model, carried)
            }
            Sharers::Coordinator(coordinator) => {
                let rounds = &micro_batches;
                CoordinatedStep { coordinator, segments, rounds, keeping, context: of_parts }
                    .run(model, carried)
            }
        };
        self.conclude(done, context)
    }

    /// What follows on forward and backward.
    fn conclude(&mut self, done: SeveralDone, context: StepContext<'_>) -> Result<StepOutcome, TrainError> {
        self.model = Chain::joined(done.model);
        let mut unfinished = done.unfinished;
        let finished = done.outcome.and_then(|done| {
            let _phase = phase(Phase::Step);
            let mut outcome = StepOutcome::nothing(context.samples);
            (outcome.loss, outcome.correct) = (done.loss, done.correct);
            self.tell_gradients(&done.gradients);
            outcome.is_skipped = !self.finish(done.gradients, done.left, context)?;
            self.tell_again();
            if let Some(several) = &mut self.several {
                several.count(&done.course);
            }
            Ok(outcome)
        });
        if finished.as_ref().map_or(true, |outcome| outcome.is_skipped)
            && let Some(several) = &self.several
        {
            // Of replicas it is the first that is gone on with.
            for (unfinished, place) in unfinished.iter_mut().zip(several.places()) {
                unfinished.take_back(&mut self.model, &place.tracked);
            }
        }
        finished
    }
}
