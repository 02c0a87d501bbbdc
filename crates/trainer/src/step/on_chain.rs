//! A step of a model that lies on several devices.

use oomph_core::{Phase, phase};
use oomph_data::Batch;
use oomph_model::Policy;
use oomph_parallel::Course;

use super::{StepContext, StepOutcome, Stepper};
use crate::{
    Session, TrainError,
    parallel::chain::{Chain, ChainStep, PartContext},
    segments::Segments,
};

/// A model's devices, and what each of its parts does.
pub(super) struct OnChain {
    pub(super) chain: Chain,
    segments: Vec<Segments>,
    /// Who did what when, in the last step.
    pub(super) course: Course,
}

impl OnChain {
    /// Puts the model where the session says, where it says that.
    pub(super) fn new(
        session: &Session,
        model: &mut oomph_model::Stages,
        recompute: &[bool],
        policy: &Policy,
    ) -> Result<Option<Self>, TrainError> {
        let Some(chain) = session.open_chain()? else { return Ok(None) };
        *model = chain.placed(std::mem::take(model));
        let segments = chain.segments(model, recompute, policy);
        Ok(Some(Self { chain, segments, course: Course::default() }))
    }
}

impl Stepper {
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
            outcome.is_skipped = !self.finish(done.gradients, done.left, context)?;
            if let Some(on_chain) = &mut self.on_chain {
                on_chain.course = done.course;
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
