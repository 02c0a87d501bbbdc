use std::{ops::Range, panic::resume_unwind, thread, time::Instant};

use burn::tensor::{Device, Tensor, TensorData};
use oomph_core::{Phase, phase};
use oomph_data::Batch;
use oomph_memory::{Account, LaneKind, charge, record::lane};
use oomph_model::{AnyTensor, Carried, Named, Stages, autodiff};
use oomph_parallel::{Course, Span, Work};

use super::{
    super::{
        Part, PartContext, Place,
        handover::{Handed, Link, link},
        outcome::{Outcome, SeveralDone, first_cause},
    },
    Coordinator, scattered,
};
use crate::{
    DeviceTargets, TrainError,
    gradients::accumulate,
    out_of_memory,
    segments::Segments,
    stretch::{self, Comparison},
    unfinished::{Keeping, Unfinished},
    upload::{upload_input, upload_targets},
};

/// A step of all replicas.
pub(crate) struct CoordinatedStep<'a> {
    pub(crate) coordinator: &'a Coordinator,
    /// Of each replica.
    pub(crate) segments: &'a [Segments],
    /// The batch, cut into what is scattered at once.
    pub(crate) rounds: &'a [Batch],
    pub(crate) keeping: Keeping,
    pub(crate) context: PartContext<'a>,
}

/// What lanes call what travels.
const OUTPUT: &str = "output";
const GRADIENTS: &str = "gradients";

/// What a replica hands to the coordinator.
enum Given {
    /// What it put out.
    Output(Handed),
    /// Its gradients, when it has done all rounds.
    Gradients(Vec<(String, TensorData)>),
}

/// The coordinator's end of a link, and the replica's.
type Outer = Link<Handed, Given>;
type Inner = Link<Given, Handed>;

/// What a replica is done with.
type Done<'a> = (Part<'a>, Result<Vec<Span>, TrainError>);

impl<'a> CoordinatedStep<'a> {
    /// Runs all replicas, each where its device computes, the first, which coordinates, in this thread.
    pub(crate) fn run(&self, model: Stages, carried: Option<&Carried>) -> SeveralDone {
        let start = Instant::now();
        let places = &self.coordinator.places;
        let (outer, inner): (Vec<Outer>, Vec<Inner>) =
            (1..places.len()).map(|index| link([0, index])).unzip();
        let done: Vec<Done<'_>> = thread::scope(|scope| {
            let others: Vec<_> = (1..)
                .zip(inner)
                .map(|(index, link)| {
                    let (place, model) = (&places[index], model.clone());
                    scope.spawn(move || place.run(|| self.replica(place, model, carried, link, start)))
                })
                .collect();
            let first = places[0].run(|| self.coordinate(&places[0], model, carried, outer, start));
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(first).chain(others).collect()
        });
        self.collected(done)
    }

    /// The model, gradients and loss are the coordinator's.
    fn collected(&self, done: Vec<Done<'_>>) -> SeveralDone {
        let plain = self.coordinator.places[0].plain();
        let (mut course, mut errors, mut first) = (Course::default(), Vec::new(), None);
        let mut left: Vec<Vec<Carried>> = vec![Vec::new(); self.rounds.len()];
        for (index, (mut part, spans)) in done.into_iter().enumerate() {
            let rounds = (0..self.rounds.len()).filter(|round| !self.rows(*round, index).is_empty());
            for (round, carried) in rounds.zip(std::mem::take(&mut part.left)) {
                left[round].push(if index == 0 { carried } else { carried.moved(&plain) });
            }
            match spans {
                Ok(spans) => course.devices.push(spans),
                Err(error) => errors.push((index, error)),
            }
            first.get_or_insert(part);
        }
        // There is a first device.
        let Part { model, unfinished, gradients, loss, correct, .. } = first.expect("a coordinator");
        let left = Carried::joined(left.into_iter().flatten().collect());
        let outcome = match first_cause(errors, &self.coordinator.places) {
            Some(error) => Err(error),
            None => Ok(Outcome { gradients: vec![gradients], loss, correct, left, course }),
        };
        SeveralDone { model: vec![model], unfinished: vec![unfinished], outcome }
    }

    /// All that a device does that does not coordinate.
    fn replica(
        &self,
        place: &Place,
        model: Stages,
        carried: Option<&Carried>,
        link: Inner,
        start: Instant,
    ) -> Done<'a> {
        let copied = {
            let _copying = (phase(Phase::Data), lane(LaneKind::Communication, "parameters", None));
            place.moved(model)
        };
        let mut part =
            Part::new(copied, &self.segments[place.index], Unfinished::new(Keeping::Nothing), None);
        let mut spans = charge(Account::Host, || Vec::with_capacity(2 * self.rounds.len()));
        let mut work = || -> Result<(), TrainError> {
            for round in 0..self.rounds.len() {
                if self.rows(round, place.index).is_empty() {
                    continue;
                }
                let begun = start.elapsed().as_secs_f64();
                let output = self.forward(place, &mut part, round, carried)?;
                {
                    let _lane = lane(LaneKind::Communication, OUTPUT, Some(round));
                    link.send(Given::Output(Handed::of(Some(output))?))?;
                }
                spans.push(span(Work::Forward(round), begun, start));
                let gradient = self.received(&link, "waits for gradient", round)?;
                let begun = start.elapsed().as_secs_f64();
                let gradient = {
                    let _phase = phase(Phase::Backward);
                    let _lane = lane(LaneKind::Communication, "gradient", Some(round));
                    gradient.onto(&place.plain())
                };
                let _lane = lane(LaneKind::Backward, "backward", Some(round));
                part.backward(round, gradient)?;
                spans.push(span(Work::Backward(round), begun, start));
            }
            let _lane = lane(LaneKind::Communication, GRADIENTS, None);
            link.send(Given::Gradients(handed(std::mem::take(&mut part.gradients))?))
        };
        let worked = work();
        (part, worked.map(|()| spans))
    }

    /// All that the first device does.
    fn coordinate(
        &self,
        place: &Place,
        model: Stages,
        carried: Option<&Carried>,
        links: Vec<Outer>,
        start: Instant,
    ) -> Done<'a> {
        let mut part = Part::new(model, &self.segments[0], Unfinished::new(self.keeping), None);
        let mut spans = charge(Account::Host, || Vec::with_capacity(2 * self.rounds.len()));
        let mut work = || -> Result<(), TrainError> {
            for round in 0..self.rounds.len() {
                let has_own = !self.rows(round, 0).is_empty();
                let begun = start.elapsed().as_secs_f64();
                let own = has_own.then(|| self.forward(place, &mut part, round, carried)).transpose()?;
                spans.push(span(Work::Forward(round), begun, start));
                let gathered = self.gather(place, own, &links, round)?;
                let begun = start.elapsed().as_secs_f64();
                let own = self.scatter(place, &mut part, gathered, &links, round)?;
                if has_own {
                    let _lane = lane(LaneKind::Backward, "backward", Some(round));
                    part.backward(round, own)?;
                }
                spans.push(span(Work::Backward(round), begun, start));
            }
            self.sum(place, &mut part, &links)
        };
        let worked = work();
        // With the links ends what others wait for.
        drop(links);
        (part, worked.map(|()| spans))
    }

    fn forward(
        &self,
        place: &Place,
        part: &mut Part<'_>,
        round: usize,
        carried: Option<&Carried>,
    ) -> Result<AnyTensor, TrainError> {
        let (batch, rows) = (&self.rounds[round], self.rows(round, place.index));
        let uploading = (phase(Phase::Data), lane(LaneKind::Data, "upload", Some(round)));
        let own = charge(Account::Host, || batch.rows(rows.clone()));
        let input = upload_input(&own, &place.tracked);
        charge(Account::Host, || drop(own));
        // The rows of all rounds follow one another.
        let before: usize = self.rounds[..round].iter().map(|batch| batch.size).sum();
        let rows = before + rows.start..before + rows.end;
        part.carried = carried.map(|carried| carried.rows(rows.clone()).moved(&place.plain()));
        drop(uploading);
        out_of_memory::check()?;
        let mut context = self.context;
        if place.index > 0 {
            // The first device draws what one alone does.
            context.key = context.key.with_name("rank").with(place.index as u64);
        }
        let _lane = lane(LaneKind::Forward, "forward", Some(round));
        let output = part.forward((round, 0..rows.len()), input, None, context)?;
        // Without targets it ends in an output.
        Ok(output.expect("a replica puts something out"))
    }

    /// The outputs of all replicas, in the order of their samples.
    fn gather(
        &self,
        place: &Place,
        own: Option<AnyTensor>,
        links: &[Outer],
        round: usize,
    ) -> Result<AnyTensor, TrainError> {
        let mut outputs: Vec<AnyTensor> = own.into_iter().collect();
        for (index, link) in (1..).zip(links) {
            if self.rows(round, index).is_empty() {
                continue;
            }
            if let Given::Output(handed) = self.received(link, "waits for output", round)? {
                let _phase = phase(Phase::Forward);
                let _lane = lane(LaneKind::Communication, OUTPUT, Some(round));
                outputs.extend(handed.onto(&place.plain()));
            }
        }
        let _phase = phase(Phase::Forward);
        Ok(AnyTensor::joined(outputs))
    }

    /// Compares all outputs, and hands each replica the gradient of its own: the coordinator's is what comes back.
    fn scatter(
        &self,
        place: &Place,
        part: &mut Part<'_>,
        gathered: AnyTensor,
        links: &[Outer],
        round: usize,
    ) -> Result<Option<AnyTensor>, TrainError> {
        let batch = &self.rounds[round];
        let targets = {
            let _phase = phase(Phase::Data);
            upload_targets(batch, &place.tracked)
        };
        let tracked = &place.tracked;
        let comparing = lane(LaneKind::Forward, "loss", Some(round));
        let Compared { gradient, loss, correct } =
            compare(tracked, gathered, targets, batch.size, self.context)?;
        drop(comparing);
        part.count(Some(loss), correct);
        let Some(gradient) = gradient else { return Ok(None) };
        let _phase = phase(Phase::Backward);
        let _lane = lane(LaneKind::Communication, "gradient", Some(round));
        // An output may have several rows a sample.
        let of_sample = gradient.dims()[0] / batch.size.max(1);
        let of = |rows: Range<usize>| gradient.clone().rows(rows.start * of_sample..rows.end * of_sample);
        for (index, link) in (1..).zip(links) {
            let rows = self.rows(round, index);
            if !rows.is_empty() {
                link.send(Handed::of(Some(of(rows)))?)?;
            }
        }
        let own = self.rows(round, 0);
        Ok((!own.is_empty()).then(|| of(own)))
    }

    /// Adds the gradients of all replicas, in their order, to the coordinator's.
    fn sum(&self, place: &Place, part: &mut Part<'_>, links: &[Outer]) -> Result<(), TrainError> {
        for link in links {
            let waiting = lane(LaneKind::Idle, "waits for gradients", None);
            let Given::Gradients(handed) = link.receive(self.coordinator.timeout)? else { continue };
            drop(waiting);
            let _phase = phase(Phase::Backward);
            let _lane = lane(LaneKind::Communication, GRADIENTS, None);
            for (name, data) in handed {
                let gradient = AnyTensor::from_data(data, &place.plain());
                accumulate(&mut part.gradients, Named::from([(name, gradient)]));
            }
            out_of_memory::check()?;
        }
        Ok(())
    }

    /// What the other end hands over. Until it comes the device is idle.
    fn received<S, R>(
        &self,
        link: &Link<S, R>,
        awaited: &'static str,
        round: usize,
    ) -> Result<R, TrainError> {
        let _lane = lane(LaneKind::Idle, awaited, Some(round));
        link.receive(self.coordinator.timeout)
    }

    /// What a device has of a round.
    fn rows(&self, round: usize, device: usize) -> Range<usize> {
        let Coordinator { places, share, .. } = self.coordinator;
        charge(Account::Host, || scattered(self.rounds[round].size, places.len(), *share)[device].clone())
    }
}

/// What comparing all outputs of a round gives.
pub(crate) struct Compared {
    /// Weighted, off the graph.
    loss: Tensor<1>,
    /// How many samples the model was right about.
    correct: Option<Tensor<1>>,
    /// Of the outputs.
    pub(crate) gradient: Option<AnyTensor>,
}

/// The loss of all outputs of a round of so many samples, and the gradient of them.
pub(crate) fn compare(
    tracked: &Device,
    gathered: AnyTensor,
    targets: DeviceTargets,
    samples: usize,
    context: PartContext<'_>,
) -> Result<Compared, TrainError> {
    let PartContext { policy, task, loss_scale, .. } = context;
    let forward = phase(Phase::Forward);
    let leaf = gathered.tracked_as(true, tracked.gradient_checkpointing_strategy());
    let weight = samples as f32 / context.samples as f32;
    let comparison = Comparison { task, targets, weight, loss_scale };
    let stretch::Compared { loss, correct, root } = comparison.compare(leaf.clone().widened(policy))?;
    drop(forward);
    let _phase = phase(Phase::Backward);
    let gradient = autodiff::backward_to(root, &Stages::new(), Some(leaf)).input;
    Ok(Compared { loss, correct, gradient })
}

/// Gradients in host memory, on their way.
fn handed(gradients: Named<AnyTensor>) -> Result<Vec<(String, TensorData)>, TrainError> {
    charge(Account::Host, || {
        let copied = |(name, gradient): (String, AnyTensor)| {
            let data = gradient.into_data()?;
            // Copied, so that the device has its memory back.
            Ok((name.clone(), TensorData::clone(&data)))
        };
        gradients.into_iter().map(copied).collect()
    })
}

fn span(work: Work, start_seconds: f64, start: Instant) -> Span {
    Span { work, start_seconds, end_seconds: start.elapsed().as_secs_f64() }
}
