//! Parameters that come from all ranks for the time in which they are needed, with `device.shard = "parameters"`.

use std::{collections::BTreeSet, ops::Range};

use oomph_kernels::offload::left_device;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Named, Stages, map_stages};
use oomph_timeline::Category;

use super::{
    gather::{Gatherer, Gathering, place, shards_in},
    shards::without_elements,
};
use crate::{EngineError, watch::Watch};

/// Gathers the parameters of segments of stages during a step. Outside of it the model holds this rank's shards (FSDP, Zhao et al.
/// 2023, <https://arxiv.org/abs/2304.11277>).
///
/// All ranks gather the same segments in the same order. While a segment computes, the parameters of the next one are underway.
pub(crate) struct Weights {
    gatherer: Gatherer,
    /// The stages of each segment.
    segments: Vec<Range<usize>>,
    /// Segments whose parameters later stages borrow: they stay whole until their own backward.
    lending: BTreeSet<usize>,
    /// The segments that are whole.
    whole: BTreeSet<usize>,
    /// This rank's shards of whole segments.
    aside: Named<AnyTensor>,
    /// The segment that is underway.
    underway: Option<(usize, Gathering)>,
}

impl Weights {
    /// The parameters of `model`, which holds shards, by the stages of each segment.
    pub(crate) fn new(gatherer: Gatherer, segments: Vec<Range<usize>>, model: &Stages) -> Self {
        let lenders: BTreeSet<usize> = model.borrowers().into_iter().map(|(_, lender)| lender).collect();
        let lends = |stages: &Range<usize>| stages.clone().any(|stage| lenders.contains(&stage));
        let lending = (0..segments.len()).filter(|index| lends(&segments[*index])).collect();
        Self { gatherer, segments, lending, whole: BTreeSet::new(), aside: Named::new(), underway: None }
    }

    /// The segment after this one, if there is one.
    pub(crate) fn after(&self, segment: usize) -> Option<usize> {
        Some(segment + 1).filter(|next| *next < self.segments.len())
    }

    /// Makes the segments whole that lend parameters, before forward.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn lend(&mut self, model: &mut Stages) -> Result<(), EngineError> {
        let lending = charge(Account::Host, || self.lending.clone());
        lending.into_iter().try_for_each(|segment| self.gather(model, segment, None, None))
    }

    /// Makes a segment whole, and starts to gather the `next` one. The watch learns of the whole parameters.
    ///
    /// # Errors
    /// If a rank or a device fails.
    pub(crate) fn gather(
        &mut self,
        model: &mut Stages,
        segment: usize,
        next: Option<usize>,
        watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(), EngineError> {
        if !self.whole.contains(&segment) {
            let gathering = match self.underway.take() {
                Some((underway, gathering)) if underway == segment => gathering,
                _ => self.started(model, segment)?,
            };
            self.start(model, next)?;
            let whole = self.gatherer.finish(gathering)?;
            if let Some(watch) = watch {
                whole.iter().for_each(|(name, tensor)| watch.holds(Category::Parameters, name, tensor));
            }
            let (_, shards) = self.shards_of(model, segment);
            charge(Account::Host, || self.aside.extend(shards));
            let stages = self.segments[segment].clone();
            place(model, |stage| stages.contains(&stage), whole);
            self.whole.insert(segment);
            return Ok(());
        }
        self.start(model, next)
    }

    /// Puts this rank's shards back, and frees the whole parameters of a segment. After forward, `is_done` is false: a segment that
    /// lends stays.
    pub(crate) fn divide(&mut self, model: &mut Stages, segment: usize, is_done: bool) {
        if !is_done && self.lending.contains(&segment) || !self.whole.remove(&segment) {
            return;
        }
        let Self { gatherer, segments, aside, .. } = self;
        let stages = segments[segment].clone();
        map_stages(model, |stage| stages.contains(&stage), &mut |info, whole| {
            if !gatherer.shards.includes(info.name) {
                return whole;
            }
            if !gatherer.executes {
                // No operation shows that the parameter lived until now.
                left_device(whole.clone().inner());
            }
            match aside.remove(info.name) {
                Some(shard) => shard.tracked_like(&whole, info.trainable),
                None => without_elements(&whole, info.trainable),
            }
        });
    }

    /// Puts all shards back, after the step or where it failed.
    pub(crate) fn divide_all(&mut self, model: &mut Stages) {
        self.underway = None;
        for segment in charge(Account::Host, || self.whole.clone()) {
            self.divide(model, segment, true);
        }
    }

    fn start(&mut self, model: &Stages, next: Option<usize>) -> Result<(), EngineError> {
        if let (None, Some(next)) = (&self.underway, next.filter(|next| !self.whole.contains(next))) {
            self.underway = Some((next, self.started(model, next)?));
        }
        Ok(())
    }

    fn started(&self, model: &Stages, segment: usize) -> Result<Gathering, EngineError> {
        let (names, shards) = self.shards_of(model, segment);
        self.gatherer.start(names, shards)
    }

    fn shards_of(&self, model: &Stages, segment: usize) -> (Vec<String>, Named<AnyTensor>) {
        let stages = self.segments[segment].clone();
        shards_in(model, |stage| stages.contains(&stage), &self.gatherer.shards)
    }
}
