//! Forward and backward of a step on all devices of a layout.

use std::{panic::resume_unwind, sync::Arc, thread};

use oomph_core::{Account, Phase, charge, phase};
use oomph_data::Batch;
use oomph_memory::record::track;
use oomph_model::{Carried, Stages};
use oomph_timeline::TrackKind;

use super::outcome::DevicesOutcome;
use crate::{
    layout::{Layout, Role},
    part::{ModelPart, PartOutcome, PartSetup, Release, Segments, StepContext, StepUndo, UndoMode},
    ranks::{Bucket, Reduction, Weights},
    transport::{LinkTransport, chain_links, star_links},
    watch::Watch,
};

/// The input of a step.
pub(super) struct StepRun<'a> {
    pub(super) layout: &'a Layout,
    /// One for each slot.
    pub(super) segments: &'a [Segments],
    /// The trained parameters of the segments of each slot.
    pub(super) buckets: &'a [Arc<[Bucket]>],
    /// One for each slot, if gradients are released; else empty.
    pub(super) releases: Vec<Release>,
    /// Gathers the parameters, if they are sharded.
    pub(super) weights: Option<Weights>,
    pub(super) micro_batches: &'a [Batch],
    pub(super) undo: UndoMode,
    /// The carried state of all samples of the batch.
    pub(super) carried: Option<&'a Carried>,
    /// Learns of boundaries on the first device.
    pub(super) watch: Option<&'a mut (dyn Watch + 'static)>,
    /// The all-reduce, if there are other ranks.
    pub(super) reduction: Option<&'a mut Reduction>,
}

impl<'a> StepRun<'a> {
    /// Runs every device on its own threads, and the first device in this thread.
    pub(super) fn run(mut self, model: Stages, context: StepContext<'_>) -> DevicesOutcome {
        let layout = self.layout;
        let mut setups = charge(Account::Host, || self.setups(model, context)).into_iter();
        let Self { watch, reduction, .. } = self;
        // A layout has a first device.
        let first = setups.next().expect("a setup for every device");
        let parts = thread::scope(|scope| {
            let others: Vec<_> = charge(Account::Host, || {
                setups
                    .map(|setup| {
                        let slot = setup.slot;
                        scope.spawn(move || slot.run(|| run_other(setup)))
                    })
                    .collect()
            });
            let first = first.slot.run_here(|| ModelPart::new(first, watch, reduction).run());
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            charge(Account::Host, || std::iter::once(first).chain(others).collect())
        });
        DevicesOutcome::collect(layout, parts, context.sizes)
    }

    /// The stages, carried state and links of each device.
    fn setups<'b>(&mut self, model: Stages, context: StepContext<'b>) -> Vec<PartSetup<'b, LinkTransport<'b>>>
    where
        'a: 'b,
    {
        let slots = self.layout.slots();
        let links = match slots[0].role {
            Role::Stages { .. } => chain_links(slots.len()),
            Role::Coordinator(_) | Role::Replica { .. } => star_links(slots.len()),
        };
        let mut releases = std::mem::take(&mut self.releases).into_iter();
        let segments = self.segments.iter().zip(self.buckets);
        let devices = slots.iter().zip(segments).zip(self.layout.part_of_each(model)).zip(links);
        let setups = devices.map(|(((slot, (segments, buckets)), model), links)| PartSetup {
            slot,
            segments,
            buckets,
            release: releases.next(),
            // A layout with several slots has no other ranks.
            weights: self.weights.take(),
            transport: LinkTransport {
                links,
                micro_batches: self.micro_batches,
                timeout: self.layout.timeout,
            },
            context,
            carried: self.carried.map(|carried| match self.layout.is_split() {
                true => carried.of_stages(&model),
                false => carried.clone(),
            }),
            model,
            // A replica is dropped after the step, so nothing of it is undone.
            undo: StepUndo::new(if slot.role.has_optimizer() { self.undo } else { UndoMode::Nothing }),
        });
        setups.collect()
    }
}

/// Runs a device other than the first. A replica begins with a copy of the coordinator's parameters.
fn run_other(mut setup: PartSetup<'_, LinkTransport<'_>>) -> PartOutcome {
    if let Role::Replica { .. } = setup.slot.role {
        let _copying = (phase(Phase::Data), track(TrackKind::Communication, "parameters", None));
        setup.model = setup.slot.moved(setup.model);
    }
    ModelPart::new(setup, None, None).run()
}
