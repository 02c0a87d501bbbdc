//! The profile of a GPU: its memory pool at the end of phases and stages, and the driver's view of the card.

use oomph_core::Bytes;
use oomph_engine::session::backend;
use oomph_memory::gpu::Breakdown;
use oomph_plan::Backend;
use oomph_trainer::{Boundary, Session, profile::DeviceProfile};
use serde::Serialize;

use crate::{
    card::own_card,
    numbers::plural,
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

/// The profile of a GPU as JSON.
#[derive(Serialize)]
pub(super) struct DeviceFindings<'a> {
    model: &'a str,
    batch: usize,
    device: String,
    #[serde(skip)]
    backend: Backend,
    rules_verified: bool,
    planned_peak_bytes: Bytes,
    planned_reserved_bytes: Option<Bytes>,
    /// A lower bound of the peak.
    highest_in_use_bytes: Bytes,
    /// An upper bound of the peak.
    pages_peak_bytes: Option<Bytes>,
    reserved_bytes: Bytes,
    boundaries: &'a [Boundary],
    step_seconds: &'a [f64],
    /// The memory of the card, if the driver reports it.
    card: Option<Breakdown>,
}

impl<'a> DeviceFindings<'a> {
    pub(super) fn new(session: &'a Session, found: &'a DeviceProfile) -> Self {
        let backend = backend(session);
        Self {
            model: session.architecture.name(),
            batch: session.config.train.batch,
            device: session.config.device.devices[0].to_string(),
            backend,
            rules_verified: backend.is_verified(),
            planned_peak_bytes: found.planned.peak().categories.total(),
            planned_reserved_bytes: found.planned.reserved_peak(),
            highest_in_use_bytes: found.highest_in_use_bytes(),
            pages_peak_bytes: found.last.pages_peak_bytes,
            reserved_bytes: found.last.reserved_bytes,
            boundaries: &found.boundaries,
            step_seconds: &found.step_seconds,
            card: own_card(session.config.device.devices[0], &found.last),
        }
    }

    pub(super) fn report(&self) -> String {
        let unverified = self.backend.caveat().map(|caveat| format!(" ({caveat})")).unwrap_or_default();
        let head = pairs([
            ("model", Some(format!("{}, batch {}", self.model, self.batch))),
            ("device", Some(self.device.clone())),
            ("steps", Some(plural(self.step_seconds.len(), "step"))),
            ("planned peak", Some(format!("{}{unverified}", self.planned_peak_bytes))),
            ("peak, lower bound", Some(format!("{} in use at a boundary", self.highest_in_use_bytes))),
            ("peak, upper bound", self.pages_peak_bytes.map(|bytes| format!("{bytes} of pages"))),
            ("planned reserved", self.planned_reserved_bytes.map(|bytes| format!("{bytes}{unverified}"))),
            ("reserved", Some(self.reserved_bytes.to_string())),
        ]);
        let card = self.card.as_ref().map(of_card).unwrap_or_default();
        format!("{head}\n{}{card}", boundaries(self.boundaries))
    }
}

fn boundaries(boundaries: &[Boundary]) -> Table<6> {
    let mut table = Table::new([
        Left("after"),
        Left("stage"),
        Right("in use"),
        Right("padding"),
        Right("reserved"),
        Right("allocations"),
    ]);
    for Boundary { phase, stage, reading } in boundaries {
        let row = [
            phase.to_string(),
            stage.clone(),
            reading.in_use_bytes.to_string(),
            reading.padding_bytes.to_string(),
            reading.reserved_bytes.to_string(),
            reading.allocations.to_string(),
        ];
        if stage.is_empty() { table.strong(row) } else { table.row(row) }
    }
    table
}

fn of_card(card: &Breakdown) -> String {
    let shown = pairs([
        ("the card", Some(card.total_bytes.to_string())),
        ("in use", Some(card.in_use_bytes.to_string())),
        ("fragmentation", Some(format!("{} reserved but not in use", card.fragmentation_bytes))),
        ("CUDA context", card.context_bytes.map(|bytes| bytes.to_string())),
        ("other processes", Some(card.others_bytes.to_string())),
        ("unattributed", Some(card.unattributed_bytes.to_string())),
        ("free", Some(card.free_bytes.to_string())),
    ]);
    format!("\n{shown}")
}

#[cfg(test)]
mod tests {
    use oomph_core::Phase;
    use oomph_trainer::PoolReading;

    use super::*;

    #[test]
    fn a_profile_of_a_gpu_is_a_table_of_boundaries() {
        let bytes = |mib: u64| Bytes::new(mib << 20);
        let reading = |mib| PoolReading {
            in_use_bytes: bytes(mib),
            padding_bytes: Bytes::new(512),
            reserved_bytes: bytes(1024),
            allocations: 40,
            pages_peak_bytes: Some(bytes(900)),
        };
        let seen = [
            Boundary { phase: Phase::Forward, stage: "stem".into(), reading: reading(100) },
            Boundary { phase: Phase::Forward, stage: String::new(), reading: reading(600) },
            Boundary { phase: Phase::Backward, stage: String::new(), reading: reading(200) },
        ];
        let findings = DeviceFindings {
            model: "resnet50",
            batch: 64,
            device: "cuda:0".into(),
            backend: Backend::Cuda,
            rules_verified: false,
            planned_peak_bytes: bytes(700),
            planned_reserved_bytes: Some(bytes(990)),
            highest_in_use_bytes: bytes(600),
            pages_peak_bytes: Some(bytes(900)),
            reserved_bytes: bytes(1024),
            boundaries: &seen,
            step_seconds: &[0.1, 0.1],
            card: None,
        };
        insta::assert_snapshot!(findings.report(), @r"
        model              resnet50, batch 64
        device             cuda:0
        steps              2 steps
        planned peak       700 MiB (GPU estimate, not yet checked on hardware)
        peak, lower bound  600 MiB in use at a boundary
        peak, upper bound  900 MiB of pages
        planned reserved   990 MiB (GPU estimate, not yet checked on hardware)
        reserved           1.00 GiB

        after     stage   in use  padding  reserved  allocations
        forward   stem   100 MiB    512 B  1.00 GiB           40
        forward          600 MiB    512 B  1.00 GiB           40
        backward         200 MiB    512 B  1.00 GiB           40
        ");
    }
}
