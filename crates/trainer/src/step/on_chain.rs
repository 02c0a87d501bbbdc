//! A step of a model that lies on several devices.

use std::ops::Range;

use oomph_core::{Phase, on_device, phase};
use oomph_data::Batch;
use oomph_memory::Category;
use oomph_model::{AnyTensor, Named, Policy, Stages};
use oomph_parallel::Course;

use super::{StepContext, StepOutcome, Stepper};
use crate::{
    Session, TrainError, Watch,
    parallel::chain::{Chain, ChainStep, PartContext, Place},
    segments::Segments,
    watch,
};

/// A model's devices, and what each of its parts does.
pub(super) struct OnChain {
    pub(super) chain: Chain,
    segments: Vec<Segments>,
    /// Seconds that each device computed, and those of all forwards and backwards.
    busy_seconds: Vec<f64>,
    seconds: f64,
}

/// One of the devices that a model lies on.
pub(crate) struct PartMetrics {
    pub(crate) stages: Range<usize>,
    /// The share of forward and backward in which it waited.
    pub(crate) idle_share: f64,
}

impl OnChain {
    /// Puts the model where the session says, where it says that.
    pub(super) fn new(
        session: &Session,
        model: &mut Stages,
        recompute: &[bool],
        policy: &Policy,
    ) -> Result<Option<Self>, TrainError> {
        let Some(chain) = session.open_chain()? else { return Ok(None) };
        *model = chain.placed(std::mem::take(model));
        let segments = chain.segments(model, recompute, policy);
        let busy_seconds = vec![0.0; chain.places.len()];
        Ok(Some(Self { chain, segments, busy_seconds, seconds: 0.0 }))
    }

    fn tell_parameters(&self, watch: &mut dyn Watch, model: &Stages) {
        model.visit(&mut |info, tensor| {
            let place = self.chain.places.iter().find(|place| place.stages.contains(&info.stage));
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
}

impl Stepper {
    /// Puts parameters that were restored where they belong.
    pub(crate) fn place_again(&mut self) {
        if let Some(on_chain) = &self.on_chain {
            self.model = on_chain.chain.placed(std::mem::take(&mut self.model));
        }
    }

    /// Tells of the parameters, each on the device where it lies.
    pub(crate) fn tell_parameters(&self, watch: &mut dyn Watch) {
        match &self.on_chain {
            Some(on_chain) => on_chain.tell_parameters(watch, &self.model),
            None => watch::parameters(watch, &self.model),
        }
    }

    /// Tells whoever watches of the gradients of each device.
    fn tell_gradients(&mut self, gradients: &[Named<AnyTensor>]) {
        if let (Some(watch), Some(on_chain)) = (&mut self.watch, &self.on_chain) {
            for (place, gradients) in on_chain.chain.places.iter().zip(gradients) {
                on_device(place.index, || watch::gradients(watch.as_mut(), gradients));
            }
        }
    }

    /// Tells whoever watches of the parameters as the step left them.
    fn tell_again(&mut self) {
        if let (Some(watch), Some(on_chain)) = (&mut self.watch, &self.on_chain) {
            on_chain.tell_parameters(watch.as_mut(), &self.model);
        }
    }

    /// The devices that the model lies on; none where it lies on one.
    pub(crate) fn parts(&self) -> Vec<PartMetrics> {
        let Some(on_chain) = &self.on_chain else { return Vec::new() };
        let busy = on_chain.chain.places.iter().zip(&on_chain.busy_seconds);
        let part = |(place, busy): (&Place, &f64)| PartMetrics {
            stages: place.stages.clone(),
            idle_share: if on_chain.seconds > 0.0 { 1.0 - busy / on_chain.seconds } else { 0.0 },
        };
        busy.map(part).collect()
    }

    /// Forward and backward of all micro-batches on all devices, then the optimizer on each.
    pub(super) fn step_on_chain(
        &mut self,
        micro_batches: &[Batch],
        context: StepContext<'_>,
    ) -> Result<StepOutcome, TrainError> {
        // Who calls has seen that there is one.
        let Some(on_chain) = &self.on_chain else { return Ok(StepOutcome::nothing(context.samples)) };
        let step = ChainStep {
            chain: &on_chain.chain,
            segments: &on_chain.segments,
            micro_batches,
            keeping: self.keeping,
            context: PartContext {
                key: self.key.with(context.step as u64),
                policy: self.policy,
                task: context.task,
                samples: context.samples,
                continues: context.continues,
                loss_scale: self.loss_scale.map(|loss_scale| loss_scale.scale()),
            },
        };
        let done = step.run(std::mem::take(&mut self.model), self.carried.as_ref());
        self.model = Chain::joined(done.model);
        let mut unfinished = done.unfinished;
        let finished = done.outcome.and_then(|done| {
            let _phase = phase(Phase::Step);
            let mut outcome = StepOutcome::nothing(context.samples);
            (outcome.loss, outcome.correct) = (done.loss, done.correct);
            self.tell_gradients(&done.gradients);
            outcome.is_skipped = !self.finish(done.gradients, done.left, context)?;
            self.tell_again();
            if let Some(on_chain) = &mut self.on_chain {
                on_chain.count(&done.course);
            }
            Ok(outcome)
        });
        if finished.as_ref().map_or(true, |outcome| outcome.is_skipped)
            && let Some(on_chain) = &self.on_chain
        {
            for (unfinished, place) in unfinished.iter_mut().zip(&*on_chain.chain.places) {
                unfinished.take_back(&mut self.model, &place.tracked);
            }
        }
        finished
    }
}
