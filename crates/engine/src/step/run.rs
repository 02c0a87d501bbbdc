//! Forward and backward of a step on all devices of a layout.

use std::{panic::resume_unwind, thread};

use oomph_core::{Account, Phase, charge, phase};
use oomph_data::Batch;
use oomph_memory::record::track;
use oomph_model::{Carried, Stages};
use oomph_timeline::TrackKind;

use super::outcome::DevicesOutcome;
use crate::{
    layout::{DeviceSlot, Layout, Role},
    part::{ModelPart, PartOutcome, PartSetup, Segments, StepContext, StepUndo, UndoMode},
    ranks::Reduction,
    transport::{LinkTransport, Links, chain_links, star_links},
    watch::Watch,
};

/// The input of a step.
pub(super) struct StepRun<'a> {
    pub(super) layout: &'a Layout,
    /// One for each slot.
    pub(super) segments: &'a [Segments],
    pub(super) micro_batches: &'a [Batch],
    pub(super) undo: UndoMode,
    /// The carried state of all samples of the batch.
    pub(super) carried: Option<&'a Carried>,
    /// Learns of boundaries on the first device.
    pub(super) watch: Option<&'a mut (dyn Watch + 'static)>,
    /// The all-reduce, if there are other ranks.
    pub(super) reduction: Option<&'a mut Reduction>,
}

/// The input of one device.
struct DeviceStart<'a> {
    setup: PartSetup<'a>,
    transport: LinkTransport<'a>,
}

impl<'a> StepRun<'a> {
    /// Runs every device on its own threads, and the first device in this thread.
    pub(super) fn run(self, model: Stages, context: StepContext<'_>) -> DevicesOutcome {
        let layout = self.layout;
        let mut starts = charge(Account::Host, || self.starts(model)).into_iter();
        let Self { watch, reduction, .. } = self;
        // A layout has a first device.
        let first = starts.next().expect("a start for every device");
        let parts = thread::scope(|scope| {
            let others: Vec<_> = charge(Account::Host, || {
                starts
                    .map(|start| {
                        let slot = start.setup.slot;
                        scope.spawn(move || slot.run(|| start.run(context)))
                    })
                    .collect()
            });
            let DeviceStart { setup, transport } = first;
            let first = setup
                .slot
                .run_here(|| ModelPart::new(setup).with_listeners(watch, reduction).run(transport, context));
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            charge(Account::Host, || std::iter::once(first).chain(others).collect())
        });
        DevicesOutcome::collect(layout, parts, context.sizes)
    }

    /// The stages, carried state and links of each device.
    fn starts(&self, model: Stages) -> Vec<DeviceStart<'a>> {
        let slots = self.layout.slots();
        let links = match slots[0].role {
            Role::Stages { .. } => chain_links(slots.len()),
            Role::Coordinator(_) | Role::Replica { .. } => star_links(slots.len()),
        };
        let models = if self.layout.is_split() { self.layout.split(model) } else { vec![model; slots.len()] };
        let devices = slots.iter().zip(self.segments).zip(models).zip(links);
        devices.map(|(((slot, segments), model), links)| self.start(slot, segments, model, links)).collect()
    }

    fn start(
        &self,
        slot: &'a DeviceSlot,
        segments: &'a Segments,
        model: Stages,
        links: Links,
    ) -> DeviceStart<'a> {
        let carried = self.carried.map(|carried| match self.layout.is_split() {
            true => carried.of_stages(&model),
            false => carried.clone(),
        });
        // A replica is dropped after the step, so nothing of it is undone.
        let undo = if slot.role.has_optimizer() { self.undo } else { UndoMode::Nothing };
        DeviceStart {
            setup: PartSetup { slot, segments, model, undo: StepUndo::new(undo), carried },
            transport: LinkTransport::new(links, self.micro_batches, self.layout.timeout),
        }
    }
}

impl DeviceStart<'_> {
    /// Runs a device other than the first. A replica begins with a copy of the coordinator's parameters.
    fn run(mut self, context: StepContext<'_>) -> PartOutcome {
        let slot = self.setup.slot;
        if let Role::Replica { .. } = slot.role {
            let _copying = (phase(Phase::Data), track(TrackKind::Communication, "parameters", None));
            let model = std::mem::take(&mut self.setup.model);
            self.setup.model = slot.moved(model);
        }
        ModelPart::new(self.setup).run(self.transport, context)
    }
}
