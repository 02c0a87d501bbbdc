//! The profile of a GPU: its memory pool at the end of phases and stages, and the driver's view of the card.

use oomph_core::{Bytes, Phase};
use oomph_engine::session::backend;
use oomph_memory::gpu::Breakdown;
use oomph_plan::Backend;
use oomph_trainer::{Boundary, Session, profile::DeviceProfile};
use serde::Serialize;

use crate::{
    card::own_card,
    error::CliError,
    numbers::{plural, signed_share},
    probe::PlannedAndMeasured,
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
    /// The boundary with the most bytes in use, a lower bound of the peak.
    fullest: Fullest,
    /// An upper bound of the peak.
    pages_peak_bytes: Option<Bytes>,
    /// The most of all readings.
    reserved_bytes: Bytes,
    boundaries: &'a [Boundary],
    step_seconds: &'a [f64],
    /// The memory of the card, if the driver reports it.
    card: Option<Breakdown>,
}

/// Bytes in use at a boundary with their padding, by plan and by the pools.
#[derive(Serialize)]
pub(super) struct Fullest {
    phase: Phase,
    /// Empty at the end of the phase.
    stage: String,
    #[serde(flatten)]
    bytes: PlannedAndMeasured,
}

impl<'a> DeviceFindings<'a> {
    pub(super) fn new(session: &'a Session, found: &'a DeviceProfile) -> Result<Self, CliError> {
        let backend = backend(session);
        let (Boundary { phase, stage, reading }, planned_bytes) = found.fullest(&session.config)?;
        let bytes = PlannedAndMeasured { planned_bytes, measured_bytes: reading.padded_bytes() };
        Ok(Self {
            model: session.architecture.name(),
            batch: session.config.train.batch,
            device: session.config.device.devices[0].to_string(),
            backend,
            rules_verified: backend.is_verified(),
            planned_peak_bytes: found.planned.peak().categories.total(),
            planned_reserved_bytes: found.planned.reserved_peak(),
            fullest: Fullest { phase: *phase, stage: stage.clone(), bytes },
            pages_peak_bytes: found.last.pages_peak_bytes,
            reserved_bytes: found.reserved_bytes(),
            boundaries: &found.boundaries,
            step_seconds: &found.step_seconds,
            card: own_card(session.config.device.devices[0], &found.last),
        })
    }

    pub(super) fn report(&self) -> String {
        let unverified = self.backend.caveat().map(|caveat| format!(" ({caveat})")).unwrap_or_default();
        let head = pairs([
            ("model", Some(format!("{}, batch {}", self.model, self.batch))),
            ("device", Some(self.device.clone())),
            ("steps", Some(plural(self.step_seconds.len(), "step"))),
            ("planned peak", Some(format!("{}{unverified}", self.planned_peak_bytes))),
            ("peak, lower bound", Some(self.fullest.text())),
            ("peak, upper bound", self.pages_peak_bytes.map(|bytes| format!("{bytes} of pages"))),
            ("planned reserved", self.planned_reserved_bytes.map(|bytes| format!("{bytes}{unverified}"))),
            ("reserved", Some(self.reserved())),
        ]);
        let card = self.card.as_ref().map(of_card).unwrap_or_default();
        format!("{head}\n{}{card}", boundaries(self.boundaries))
    }
}

impl DeviceFindings<'_> {
    /// Reserved bytes, and how far the plan is off.
    fn reserved(&self) -> String {
        let measured_bytes = self.reserved_bytes;
        let planned = self.planned_reserved_bytes;
        let compared = planned.map(|planned_bytes| PlannedAndMeasured { planned_bytes, measured_bytes });
        let off = compared.map(|bytes| format!(" (plan {})", signed_share(bytes.difference())));
        format!("{measured_bytes}{}", off.unwrap_or_default())
    }
}

impl Fullest {
    fn text(&self) -> String {
        let Self { phase, stage, bytes } = self;
        let PlannedAndMeasured { planned_bytes, measured_bytes } = bytes;
        let space = if stage.is_empty() { "" } else { " " };
        let off = signed_share(bytes.difference());
        format!("{measured_bytes} in use after {phase}{space}{stage}, planned {planned_bytes} ({off})")
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
            rules_verified: true,
            planned_peak_bytes: bytes(700),
            planned_reserved_bytes: Some(bytes(990)),
            fullest: Fullest {
                phase: Phase::Forward,
                stage: String::new(),
                bytes: PlannedAndMeasured { planned_bytes: bytes(603), measured_bytes: bytes(600) },
            },
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
        planned peak       700 MiB
        peak, lower bound  600 MiB in use after forward, planned 603 MiB (+0.5 %)
        peak, upper bound  900 MiB of pages
        planned reserved   990 MiB
        reserved           1.00 GiB (plan −3.3 %)

        after     stage   in use  padding  reserved  allocations
        forward   stem   100 MiB    512 B  1.00 GiB           40
        forward          600 MiB    512 B  1.00 GiB           40
        backward         200 MiB    512 B  1.00 GiB           40
        ");
    }
}
