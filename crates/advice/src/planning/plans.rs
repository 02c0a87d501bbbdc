//! The plans of the splits of a step, each made once.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use oomph_core::{Bytes, Phase, is_within};
use oomph_engine::session::{Session, StepSplit, bytes_of_smallest, stage_output_bytes};
use oomph_plan::{Backend, Recording, time::forward_costs};
use oomph_timeline::{Category, SpanKind, Timeline};

use super::{
    chosen::Chosen,
    coordinated::Coordinated,
    cover::Offer,
    device_recording::{DeviceWork, STEPS, record},
    duration::PlannedTime,
    splitter::{Splitter, timeline_of_device},
};
use crate::error::PlanError;

/// Plans splits of a step of one session.
pub(super) struct Plans<'a> {
    pub(super) session: &'a Session,
    /// Samples of a step on all devices together.
    pub(super) batch: usize,
    pub(super) backend: Backend,
    /// The plans so far.
    known: Mutex<HashMap<StepSplit, Needs>>,
    /// What recompute of each stage offers, by device and micro-batch.
    offered: Mutex<HashMap<(usize, usize), Offers>>,
}

/// What recompute of each stage offers.
type Offers = Arc<[Offer]>;

/// What a split needs by plan.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// The need of the fullest device.
    peak_bytes: Option<Bytes>,
    /// Seconds of a step.
    seconds: Option<f64>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(session: &'a Session, batch: usize, backend: Backend) -> Self {
        Self { session, batch, backend, known: Mutex::default(), offered: Mutex::default() }
    }

    pub(super) fn all(&self, recompute: bool) -> Vec<bool> {
        vec![recompute; self.session.stages.len()]
    }

    pub(super) fn splitter(&self, micro_batch: usize, recompute: &[bool]) -> Splitter<'a> {
        let split = StepSplit { micro_batch, recompute: recompute.to_vec() };
        Splitter::new(self.session, self.session.share_of(self.batch), self.backend, split)
    }

    fn coordinated(&self, micro_batch: usize, recompute: &[bool]) -> Option<Coordinated<'a>> {
        let split = StepSplit { micro_batch, recompute: recompute.to_vec() };
        let scatter = self.session.scatter()?;
        Some(Coordinated::new(self.session, self.batch, self.backend, scatter, split))
    }

    /// The planned need of the fullest device.
    pub(super) fn peak(&self, micro_batch: usize, recompute: &[bool]) -> Result<Bytes, PlanError> {
        self.remembered(
            micro_batch,
            recompute,
            |needs| &mut needs.peak_bytes,
            || match self.coordinated(micro_batch, recompute) {
                Some(coordinated) => coordinated.peak_of_fullest(),
                None => self.splitter(micro_batch, recompute).peak_of_fullest(),
            },
        )
    }

    /// The planned seconds of a step.
    pub(super) fn seconds(&self, micro_batch: usize, recompute: &[bool]) -> Result<f64, PlanError> {
        self.remembered(
            micro_batch,
            recompute,
            |needs| &mut needs.seconds,
            || match self.coordinated(micro_batch, recompute) {
                Some(coordinated) => coordinated.seconds(),
                None => self.splitter(micro_batch, recompute).seconds(),
            },
        )
    }

    /// A need that is known, or else planned. On one device, and on one of several alike, one recording shows all needs.
    fn remembered<T: Copy>(
        &self,
        micro_batch: usize,
        recompute: &[bool],
        of: impl Fn(&mut Needs) -> &mut Option<T>,
        plan: impl FnOnce() -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        let split = StepSplit { micro_batch, recompute: recompute.to_vec() };
        let mut needs = locked(&self.known).get(&split).copied().unwrap_or_default();
        if let Some(known) = *of(&mut needs) {
            return Ok(known);
        }
        if !self.session.has_uneven_devices() {
            needs = self.needs_alone(split.clone())?;
        }
        let found = match *of(&mut needs) {
            Some(found) => found,
            None => plan()?,
        };
        *of(&mut needs) = Some(found);
        locked(&self.known).insert(split, needs);
        Ok(found)
    }

    /// The needs of a device that has the whole model.
    fn needs_alone(&self, split: StepSplit) -> Result<Needs, PlanError> {
        let (session, backend, batch) = (self.session, self.backend, self.batch);
        let work = DeviceWork::alone(session, session.share_of(batch), split.clone());
        let recording = record(session, &work, backend)?;
        let timeline = timeline_of_device(session, &recording, 0, backend, batch);
        let peak_bytes = bytes_of_smallest(session, 0, timeline.needed_bytes());
        if !split.recompute.contains(&true) {
            let offers = self.offers_of(&work, &recording, &timeline, 1).into();
            locked(&self.offered).insert((0, split.micro_batch), offers);
        }
        let chosen = Chosen { batch, backend, split };
        let time = PlannedTime::of(session, &recording, session.speeds.of(backend), &chosen);
        Ok(Needs { peak_bytes: Some(peak_bytes), seconds: Some(time.step_seconds) })
    }

    /// What recompute of each stage of a device offers.
    pub(super) fn offers(
        &self,
        micro_batch: usize,
        part: Range<usize>,
        device: usize,
    ) -> Result<Offers, PlanError> {
        // A device of a split model may get another part by the time of the next choice.
        let is_whole = part.len() == self.session.stages.len();
        let known = || locked(&self.offered).get(&(device, micro_batch)).map(Arc::clone);
        if let Some(known) = known().filter(|_| is_whole) {
            return Ok(known);
        }
        let splitter = self.splitter(micro_batch, &self.all(false));
        let work = splitter.work(part, device);
        let recording = record(self.session, &work, self.backend)?;
        let timeline = splitter.replayed(&recording, device);
        let offers: Offers = self.offers_of(&work, &recording, &timeline, splitter.in_flight(device)).into();
        if is_whole {
            locked(&self.offered).insert((device, micro_batch), Arc::clone(&offers));
        }
        Ok(offers)
    }

    /// The bytes that recompute of each stage would free at the peak of a plan without recompute, and its time in a step. The bytes
    /// are those of the stage's activations of all micro-batches in flight, less its outputs, which the next stage keeps.
    fn offers_of(
        &self,
        work: &DeviceWork,
        recording: &Recording,
        timeline: &Timeline,
        in_flight: usize,
    ) -> Vec<Offer> {
        let names = &self.session.stages;
        let costs = forward_costs(recording, self.session.speeds.of(self.backend));
        let held = activations(timeline, names);
        let outputs = stage_output_bytes(self.session, work.sizes[0]);
        // The recording has the forwards of several steps, and not all of a step.
        let of_a_step = work.batch as f64 / (STEPS * work.sizes.iter().sum::<usize>()) as f64;
        let offer = |stage: &String, held: u64, output: u64| {
            let bytes = Bytes::new(held.saturating_sub(output.saturating_mul(in_flight as u64)));
            let bytes = bytes_of_smallest(self.session, work.device, bytes).get();
            Offer { bytes, seconds: costs.get(stage).copied().unwrap_or_default() * of_a_step }
        };
        let stages = names.iter().zip(held).zip(outputs);
        let mut offers: Vec<Offer> =
            stages.map(|((stage, held), output)| offer(stage, held, output)).collect();
        // Backward begins with the last stage, whose activations still exist. Recompute would save nothing.
        if let Some(last) = offers.last_mut() {
            last.bytes = 0;
        }
        offers
    }
}

/// What is known so far. A panic in another thread leaves whole entries.
fn locked<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of activations of each stage at the peak of the last step.
fn activations(timeline: &Timeline, stages: &[String]) -> Vec<u64> {
    let last = timeline
        .spans_of(SpanKind::Step)
        .filter(|span| timeline.names.text(span.name) != "evaluation")
        .last();
    let peak = match last {
        Some(step) => timeline.peak_within(step.start..step.end),
        None => timeline.peak(),
    };
    let mut held = vec![0; stages.len()];
    for index in timeline.alive_after(peak.event) {
        let block = &timeline.blocks[index];
        if block.category != Category::Activations || block.phase != Phase::Forward {
            continue;
        }
        let scope = timeline.names.text(block.scope);
        if let Some(stage) = stages.iter().position(|stage| is_within(scope, stage)) {
            held[stage] += block.bytes;
        }
    }
    held
}
