use std::{ops::Range, panic::resume_unwind, thread, time::Instant};

use oomph_core::{Phase, phase};
use oomph_data::Batch;
use oomph_memory::{
    Account, LaneKind, charge,
    record::{LaneGuard, lane},
};
use oomph_model::{Carried, Stages};
use oomph_parallel::{Course, Span, Work};

use super::{
    super::{
        Part, PartContext, Place,
        handover::{Handed, Link, link},
        outcome::{Outcome, SeveralDone, first_cause},
    },
    Chain,
};
use crate::{
    TrainError, out_of_memory,
    segments::Segments,
    unfinished::{Keeping, Unfinished},
    upload::{upload_input, upload_targets},
};

/// What lanes call what is handed over, and the time in which a device waits for it.
const ACTIVATION: &str = "activation";
const GRADIENT: &str = "gradient";
const ACTIVATION_AWAITED: &str = "waits for activation";
const GRADIENT_AWAITED: &str = "waits for gradient";

/// Takes something over, or hands it over.
fn handing(what: &'static str, index: usize) -> LaneGuard {
    lane(LaneKind::Communication, what, Some(index))
}

/// A step of all parts.
pub(crate) struct ChainStep<'a> {
    pub(crate) chain: &'a Chain,
    /// Of each part.
    pub(crate) segments: &'a [Segments],
    pub(crate) micro_batches: &'a [Batch],
    pub(crate) keeping: Keeping,
    pub(crate) context: PartContext<'a>,
}

/// What connects a device with those beside it in the chain.
#[derive(Default)]
struct Links {
    before: Option<Link<Handed, Handed>>,
    after: Option<Link<Handed, Handed>>,
}

/// The links of so many devices, in their order.
fn links(devices: usize) -> Vec<Links> {
    let mut links: Vec<_> = charge(Account::Host, || (0..devices).map(|_| Links::default()).collect());
    for index in 1..devices {
        let (after, before) = link([index - 1, index]);
        (links[index - 1].after, links[index].before) = (Some(after), Some(before));
    }
    links
}

impl ChainStep<'_> {
    /// Runs all parts, each where its device computes, the first in this thread.
    pub(crate) fn run(&self, model: Stages, carried: Option<&Carried>) -> SeveralDone {
        let parts: Vec<_> = self
            .chain
            .cut(model)
            .into_iter()
            .zip(self.segments)
            .map(|(model, segments)| {
                let carried = carried.map(|carried| carried.of_stages(&model));
                Part::new(model, segments, Unfinished::new(self.keeping), carried)
            })
            .collect();
        let start = Instant::now();
        let done: Vec<_> = thread::scope(|scope| {
            let work = |place: &Place, part, links| place.run(|| self.of_device(place, part, links, start));
            let mut devices = self.chain.places.iter().zip(parts).zip(links(self.chain.places.len()));
            // There is a first device.
            let ((first, part), link) = devices.next().expect("a chain has devices");
            let others: Vec<_> =
                devices.map(|((place, part), links)| scope.spawn(move || work(place, part, links))).collect();
            let first = work(first, part, link);
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(first).chain(others).collect()
        });
        self.collected(done)
    }

    fn collected<'p>(&self, done: Vec<(Part<'p>, Result<Vec<Span>, TrainError>)>) -> SeveralDone {
        let (mut model, mut unfinished, mut gradients) = (Vec::new(), Vec::new(), Vec::new());
        let (mut course, mut errors) = (Course::default(), Vec::new());
        let (mut loss, mut correct) = (None, None);
        let mut left = Carried::new();
        for (index, (part, spans)) in done.into_iter().enumerate() {
            model.push(part.model);
            unfinished.push(part.unfinished);
            gradients.push(part.gradients);
            loss = loss.or(part.loss);
            correct = correct.or(part.correct);
            left.extend(Carried::joined(part.left));
            match spans {
                Ok(spans) => course.devices.push(spans),
                Err(error) => errors.push((index, error)),
            }
        }
        let outcome = match first_cause(errors, &self.chain.places) {
            Some(error) => Err(error),
            None => Ok(Outcome { gradients, loss, correct, left, course }),
        };
        SeveralDone { model, unfinished, outcome }
    }

    /// All that one device does in the step.
    fn of_device<'p>(
        &self,
        place: &Place,
        mut part: Part<'p>,
        links: Links,
        start: Instant,
    ) -> (Part<'p>, Result<Vec<Span>, TrainError>) {
        let devices = self.chain.places.len();
        let work = charge(Account::Host, || {
            self.chain.schedule.work(place.index, devices, self.micro_batches.len())
        });
        let mut spans = charge(Account::Host, || Vec::with_capacity(work.len()));
        for work in work {
            let done = match work {
                Work::Forward(index) => self.forward(place, &mut part, &links, index, start),
                Work::Backward(index) => self.backward(place, &mut part, &links, index, start),
            };
            match done.and_then(|begun| out_of_memory::check().map(|()| begun)) {
                Ok(start_seconds) => {
                    spans.push(Span { work, start_seconds, end_seconds: start.elapsed().as_secs_f64() });
                }
                // The links end here, and with them what others wait for.
                Err(error) => return (part, Err(error)),
            }
        }
        (part, Ok(spans))
    }

    /// Gives when it began to work: what it waited for before is idle.
    fn forward(
        &self,
        place: &Place,
        part: &mut Part<'_>,
        links: &Links,
        index: usize,
        start: Instant,
    ) -> Result<f64, TrainError> {
        let batch = &self.micro_batches[index];
        let handed = self.received(links.before.as_ref(), ACTIVATION_AWAITED, index)?;
        let begun = start.elapsed().as_secs_f64();
        let plain = place.plain();
        let uploading = phase(Phase::Data);
        let taking = match &handed {
            Some(_) => handing(ACTIVATION, index),
            None => lane(LaneKind::Data, "upload", Some(index)),
        };
        let input = match handed.and_then(|handed| handed.onto(&place.tracked)) {
            Some(input) => input,
            None => upload_input(batch, &place.tracked),
        };
        let targets = links.after.is_none().then(|| upload_targets(batch, &place.tracked));
        drop((uploading, taking, plain));
        out_of_memory::check()?;
        let computing = lane(LaneKind::Forward, "forward", Some(index));
        let output = part.forward((index, self.rows(index)), input, targets, self.context)?;
        drop(computing);
        if let Some(after) = &links.after {
            let _lane = handing(ACTIVATION, index);
            after.send(Handed::of(output)?)?;
        }
        Ok(begun)
    }

    fn backward(
        &self,
        place: &Place,
        part: &mut Part<'_>,
        links: &Links,
        index: usize,
        start: Instant,
    ) -> Result<f64, TrainError> {
        let handed = self.received(links.after.as_ref(), GRADIENT_AWAITED, index)?;
        let begun = start.elapsed().as_secs_f64();
        let gradient = {
            let _phase = phase(Phase::Backward);
            let _lane = handed.as_ref().map(|_| handing(GRADIENT, index));
            handed.and_then(|handed| handed.onto(&place.plain()))
        };
        let computing = lane(LaneKind::Backward, "backward", Some(index));
        let gradient = part.backward(index, gradient)?;
        drop(computing);
        if let Some(before) = &links.before {
            let _lane = handing(GRADIENT, index);
            before.send(Handed::of(gradient)?)?;
        }
        Ok(begun)
    }

    /// What a neighbour hands over, where there is one. Until it comes the device is idle.
    fn received(
        &self,
        neighbour: Option<&Link<Handed, Handed>>,
        awaited: &'static str,
        index: usize,
    ) -> Result<Option<Handed>, TrainError> {
        let Some(neighbour) = neighbour else { return Ok(None) };
        let _lane = lane(LaneKind::Idle, awaited, Some(index));
        neighbour.receive(self.chain.timeout).map(Some)
    }

    /// The samples of a micro-batch within the batch.
    fn rows(&self, index: usize) -> Range<usize> {
        let start = self.micro_batches[..index].iter().map(|batch| batch.size).sum();
        start..start + self.micro_batches[index].size
    }
}
