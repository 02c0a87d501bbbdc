//! The devices of a step: the stages that each has, and its role.
//!
//! One device is a layout with one slot. `model` and `pipeline` split the stages over the slots. `dp` gives every slot
//! all stages, and the first slot is the coordinator. With `ddp` each rank has a layout with one slot.

mod device_slot;
mod role;
mod scatter;

use std::{sync::Arc, time::Duration};

use oomph_core::{Account, charge};
use oomph_data::Batch;
use oomph_model::{Carried, Policy, Stages};

pub use device_slot::DeviceSlot;
pub use role::{Role, WorkItem};
pub use scatter::Scatter;

use crate::{
    EngineError, exhausted,
    part::{Position, Segments},
};

/// The devices that share a step. The first device runs in the thread of the caller.
#[derive(Clone, Debug)]
pub struct Layout {
    slots: Arc<[DeviceSlot]>,
    /// How long a device waits for a message of another.
    pub(crate) timeout: Duration,
}

impl Layout {
    /// A layout of these slots, at least one. `timeout` is how long a device waits for a message of another.
    ///
    /// # Panics
    /// Panics if `slots` is empty.
    pub fn new(slots: Vec<DeviceSlot>, timeout: Duration) -> Self {
        assert!(!slots.is_empty(), "a layout has a device");
        Self { slots: slots.into(), timeout }
    }

    /// The devices, in order.
    pub fn slots(&self) -> &[DeviceSlot] {
        &self.slots
    }

    /// The first device.
    pub fn first(&self) -> &DeviceSlot {
        &self.slots[0]
    }

    /// Whether the stages of the model are split over several devices.
    pub fn is_split(&self) -> bool {
        self.first().role.is_split()
    }

    /// The slots that keep parameters between steps: all slots if the model is split, else the first.
    pub fn owners(&self) -> &[DeviceSlot] {
        if self.is_split() { &self.slots } else { &self.slots[..1] }
    }

    /// Checks whether memory ran out on any of the devices, right after the optimizer step number `step`, from 1, which has finished.
    ///
    /// # Errors
    /// That of the first such device.
    pub fn check_after(&self, step: usize) -> Result<(), EngineError> {
        let check = |slot: &DeviceSlot| slot.run_here(|| exhausted::check_after(step));
        self.slots.iter().try_for_each(|slot| check(slot).map_err(|error| error.on(slot)))
    }

    /// Divides a batch into micro-batches of `micro_batch` samples. With `dp`: into rounds that give no replica more.
    pub(crate) fn micro_batches(&self, batch: Batch, micro_batch: usize) -> Vec<Batch> {
        let samples = match &self.first().role {
            Role::Coordinator(scatter) => scatter.round(batch.size, micro_batch),
            Role::Stages { .. } | Role::Replica { .. } => micro_batch,
        };
        charge(Account::Host, || {
            let mut pieces = batch.split(samples);
            // A rank may have no samples of a small last batch.
            pieces.retain(|piece| piece.size > 0);
            pieces
        })
    }

    /// Splits the model into the model parts of its owners, in the order of devices.
    pub fn split(&self, model: Stages) -> Vec<Stages> {
        charge(Account::Host, || {
            let mut rest = model;
            let mut parts = Vec::new();
            for slot in self.owners().iter().skip(1).rev() {
                parts.push(rest.split_off(slot.stages.start));
            }
            parts.push(rest);
            parts.reverse();
            parts
        })
    }

    /// The model part of each slot: the whole model for each, unless it is split.
    pub(crate) fn part_of_each(&self, model: Stages) -> Vec<Stages> {
        if self.is_split() { self.split(model) } else { vec![model; self.slots.len()] }
    }

    /// Joins model parts into the whole model.
    pub fn joined(parts: Vec<Stages>) -> Stages {
        charge(Account::Host, || parts.into_iter().reduce(Stages::followed_by).unwrap_or_default())
    }

    /// Copies each model part into the memory of its device. A model on one device is returned unchanged.
    #[must_use]
    pub fn placed(&self, model: Stages) -> Stages {
        if !self.is_split() {
            return model;
        }
        let parts = self.split(model);
        Self::joined(self.slots.iter().zip(parts).map(|(slot, part)| slot.run(|| slot.moved(part))).collect())
    }

    /// Copies the carried state of each stage into the memory of the stage's device.
    #[must_use]
    pub fn placed_carried(&self, carried: Carried, model: &Stages) -> Carried {
        if !self.is_split() {
            return carried;
        }
        let mut placed = Carried::new();
        for (slot, part) in self.slots.iter().zip(self.split(model.clone())) {
            let of_part = carried.of_stages(&part);
            placed.extend(slot.run(|| of_part.moved(&slot.plain())));
        }
        placed
    }

    /// The segments of each slot.
    pub(crate) fn segments(&self, model: &Stages, options: SegmentOptions<'_>) -> Vec<Segments> {
        charge(Account::Host, || {
            let parts = self.part_of_each(model.clone());
            self.slots.iter().zip(&parts).map(|(slot, part)| slot.segments(part, options)).collect()
        })
    }
}

/// How stages are grouped into segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentOptions<'a> {
    /// For each stage of the whole model: whether it recomputes.
    pub(crate) recompute: &'a [bool],
    pub(crate) policy: &'a Policy,
    /// The number of frozen stages before the first trained stage of the whole model.
    pub(crate) leading_frozen: usize,
    /// The last stage of each gradient bucket: a segment ends with it.
    pub(crate) bucket_ends: &'a [usize],
    /// Whether inputs of recomputed segments wait in host memory.
    pub(crate) offloads: bool,
    /// Whether the last stage of the model is computed by chunks of tokens.
    pub(crate) chunks: bool,
    /// Whether Burn's generator is seeded before each stage. A recording device has no generator.
    pub(crate) seeds: bool,
}

impl DeviceSlot {
    /// Groups the stages of this slot into segments.
    pub(crate) fn segments(&self, part: &Stages, options: SegmentOptions<'_>) -> Segments {
        let position = Position {
            first_stage: self.stages.start,
            continues: self.stages.start > options.leading_frozen,
            is_continued: !self.role.has_loss(),
        };
        let mut recompute = options.recompute[self.stages.clone()].to_vec();
        if let (false, Some(last)) = (matches!(self.role, Role::Stages { .. }), recompute.last_mut()) {
            // Backward of a replica begins with the last stage, whose activations still exist. Recompute would save
            // nothing.
            *last = false;
        }
        let seeded = options.seeds.then(|| self.tracked.clone());
        let chunks = options.chunks && !position.is_continued;
        let before_last = part.len().checked_sub(2).filter(|_| chunks);
        let ends: Vec<_> = options.bucket_ends.iter().copied().chain(before_last).collect();
        let segments = Segments::new(part, recompute, options.policy, seeded, &ends, position);
        segments.offloading(options.offloads).chunking(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::model_record,
        tests::{STAGES, layout, model},
    };

    fn names(model: &Stages) -> Vec<&str> {
        model.names().collect()
    }

    #[test]
    fn a_split_model_joins_to_the_same_model() {
        let whole = model();
        let record = model_record(&whole).expect("the CPU does not fail");
        for (split_points, expected) in
            [(vec![], vec![3]), (vec![1], vec![1, 2]), (vec![2], vec![2, 1]), (vec![1, 2], vec![1, 1, 1])]
        {
            let layout = layout(&split_points);
            assert_eq!(layout.is_split(), !split_points.is_empty());
            let parts = layout.split(whole.clone());
            let sizes: Vec<_> = parts.iter().map(Stages::len).collect();
            assert_eq!(sizes, expected, "split points {split_points:?}");
            let joined = Layout::joined(parts);
            assert_eq!(names(&joined), STAGES);
            assert_eq!(model_record(&joined).expect("the CPU does not fail"), record);
        }
    }

    #[test]
    fn model_parts_have_the_stages_of_their_slots() {
        let layout = layout(&[1]);
        let parts = layout.split(model());
        for (slot, part) in layout.slots().iter().zip(&parts) {
            assert_eq!(names(part), STAGES[slot.stages.clone()]);
        }
    }

    #[test]
    fn a_placed_model_keeps_every_bit() {
        let before = model_record(&model()).expect("the CPU does not fail");
        let placed = layout(&[1, 2]).placed(model());
        assert_eq!(model_record(&placed).expect("the CPU does not fail"), before);
    }

    #[test]
    fn no_parts_join_to_an_empty_model() {
        assert!(Layout::joined(Vec::new()).is_empty());
    }
}
