//! The choice of `auto`: the micro-batch and the recomputed stages that fit the limit in the least time.

use std::{iter::once, ops::Range};

use oomph_config::{
    MicroBatch, Recompute,
    sections::{memory::Gradients, offload::Offload},
};
use oomph_core::{Bytes, Phase, grouped, is_within};
use oomph_engine::{
    micro_batches::micro_batches,
    session::{
        Session, SplitKey, StepSplit, backend, bytes_of_smallest, fixed_split, largest_train_batch,
        stage_output_bytes,
    },
};
use oomph_memory::{Account, charge};
use oomph_plan::{Backend, time::forward_costs};
use oomph_timeline::{Category, SpanKind, Timeline};

use super::{
    coordinated::Coordinated,
    cover::{Offer, cheapest_cover},
    micro_batch_check::check_micro_batch,
    options::{PlanOptions, fits},
    splitter::Splitter,
};
use crate::error::PlanError;

/// How the session's steps are split: as configured, or as `auto` chooses.
///
/// Smaller micro-batches cost less time than recompute, so with both set to `auto` they are tried first. Without a
/// limit `auto` saves nothing. If nothing fits, `auto` chooses the split with the lowest planned peak.
///
/// # Errors
/// If the model cannot be split over the devices, or refuses every micro-batch.
pub fn choose(session: &Session, key: SplitKey) -> Result<StepSplit, PlanError> {
    let memory = &session.config.memory;
    let is_auto = memory.recompute == Recompute::Auto || memory.micro_batch == Some(MicroBatch::Auto);
    let fixed = fixed_split(session, session.share_of(key.batch));
    let Some(limit_bytes) = key.limit_bytes.filter(|_| is_auto) else { return Ok(fixed) };
    if let Some(known) = session.splits.get(&key) {
        return Ok(known);
    }
    let chooser = Chooser { session, batch: key.batch, backend: key.backend, limit_bytes };
    // Ranks choose on threads that work for a device.
    let split = charge(Account::Host, || chooser.choose(fixed))?;
    session.splits.insert(key, split.clone());
    Ok(split)
}

/// Samples of one forward and backward on one device, as configured or as `auto` chooses.
pub fn micro_batch(session: &Session) -> usize {
    micro_batch_of(session, session.config.train.batch)
}

/// Samples of one forward and backward on one device, for a batch of `batch` samples.
pub fn micro_batch_of(session: &Session, batch: usize) -> usize {
    let key = SplitKey { batch, backend: backend(session), limit_bytes: session.limit_bytes };
    // Planning and training report the error of a batch that the model refuses.
    choose(session, key).map_or_else(|_| session.share_of(batch), |split| split.micro_batch)
}

/// Samples of an evaluation batch on one device.
pub fn eval_batch(session: &Session) -> usize {
    session.config.train.eval_batch.unwrap_or_else(|| micro_batch(session))
}

/// The splitter of the session's steps, with the micro-batch and the recomputed stages that `auto` chooses.
///
/// # Errors
/// The errors of [`choose`].
pub(super) fn chosen_splitter(session: &Session, options: PlanOptions) -> Result<Splitter<'_>, PlanError> {
    let Chosen { batch, backend, split } = chosen(session, options)?;
    Ok(Splitter::new(session, batch, backend, split))
}

/// What a plan is of.
pub(super) struct Chosen {
    /// Samples of a step on all devices together.
    pub(super) batch: usize,
    pub(super) backend: Backend,
    pub(super) split: StepSplit,
}

/// The batch and the backend of a plan, and the split of its steps, with what `auto` chooses.
///
/// # Errors
/// The errors of [`choose`].
pub(super) fn chosen(session: &Session, options: PlanOptions) -> Result<Chosen, PlanError> {
    let batch = options.batch.unwrap_or_else(|| largest_train_batch(session));
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let limit_bytes = options.limit_bytes.or(session.limit_bytes);
    let mut split = choose(session, SplitKey { batch, backend, limit_bytes })?;
    split.micro_batch = options.micro_batch.unwrap_or(split.micro_batch).min(session.share_of(batch));
    Ok(Chosen { batch, backend, split })
}

struct Chooser<'a> {
    session: &'a Session,
    /// Samples of a step on all devices together.
    batch: usize,
    backend: Backend,
    /// The limit of the smallest device.
    limit_bytes: Bytes,
}

/// The number of plans after which all stages recompute.
const MOST_PLANS: usize = 12;

/// So many micro-batches of a batch are an exception: the largest size is all of it, the second half of it.
const FEW: usize = 2;

impl<'a> Chooser<'a> {
    /// Chooses from the split without a limit: the largest micro-batch, and no recompute if that is `auto`.
    fn choose(&self, fixed: StepSplit) -> Result<StepSplit, PlanError> {
        let memory = &self.session.config.memory;
        let is_auto = memory.recompute == Recompute::Auto;
        let StepSplit { micro_batch: whole, recompute: most } = fixed;
        let least = if is_auto { self.all(true) } else { most.clone() };
        let micro_batch = match memory.micro_batch {
            Some(MicroBatch::Auto) => match self.largest_micro_batch(whole, &most) {
                Some(micro_batch) => return Ok(StepSplit { micro_batch, recompute: most }),
                None => {
                    self.largest_micro_batch(whole, &least).unwrap_or_else(|| self.leanest(whole, &least))
                }
            },
            _ => whole,
        };
        let recompute = if is_auto { self.cheapest(micro_batch)? } else { least };
        Ok(StepSplit { micro_batch, recompute })
    }

    fn all(&self, recompute: bool) -> Vec<bool> {
        vec![recompute; self.session.stages.len()]
    }

    fn splitter(&self, micro_batch: usize, recompute: &[bool]) -> Splitter<'a> {
        let split = StepSplit { micro_batch, recompute: recompute.to_vec() };
        Splitter::new(self.session, self.session.share_of(self.batch), self.backend, split)
    }

    /// The planned need of the fullest device.
    fn peak(&self, micro_batch: usize, recompute: &[bool]) -> Result<Bytes, PlanError> {
        let Some(scatter) = self.session.scatter() else {
            return self.splitter(micro_batch, recompute).peak_of_fullest();
        };
        let split = StepSplit { micro_batch, recompute: recompute.to_vec() };
        Coordinated::new(self.session, self.batch, self.backend, scatter, split).peak_of_fullest()
    }

    fn fits(&self, peak_bytes: Bytes) -> bool {
        fits(peak_bytes, self.limit_bytes, self.backend)
    }

    /// The largest micro-batch that fits; `None` if none does.
    ///
    /// Peaks fall with the micro-batch, with two exceptions: a second one needs sums of gradients, and between the first
    /// and the last one no bucket of replicas leaves. So these three kinds are searched one after the other.
    fn largest_micro_batch(&self, whole: usize, recompute: &[bool]) -> Option<usize> {
        let sizes = self.sizes(whole);
        let (few, many) = sizes.split_at(FEW.min(sizes.len()));
        // The model may refuse a micro-batch, for example one whose rest is one sample.
        let fits = |size: usize| self.peak(size, recompute).is_ok_and(|peak| self.fits(peak));
        let first = few.iter().copied().find(|size| fits(*size) && self.divides(*size));
        first.or_else(|| {
            let first = first_that_fits(many, fits)?;
            many.iter().copied().skip_while(|size| *size > first).find(|size| self.divides(*size))
        })
    }

    /// `whole`, and the smaller micro-batches.
    fn sizes(&self, whole: usize) -> Vec<usize> {
        let smaller = micro_batches(self.session.share_of(self.batch)).filter(|size| *size < whole);
        once(whole).chain(smaller).collect()
    }

    /// The micro-batch with the lowest planned peak, where none fits: few large ones, or the smallest ones that the model can
    /// be trained on. Batch normalisation cannot be trained on one value per channel.
    fn leanest(&self, whole: usize, recompute: &[bool]) -> usize {
        let peak = |size: usize| self.divides(size).then(|| self.peak(size, recompute).ok()).flatten();
        let smallest = (1..whole).find_map(|size| Some((peak(size)?, size)));
        let few = self.sizes(whole).into_iter().take(FEW);
        let leanest = few.filter_map(|size| Some((peak(size)?, size))).chain(smallest).min();
        leanest.map_or(whole, |(_, size)| size)
    }

    /// Whether the model can be trained on what a micro-batch leaves of every batch, and of the last one of an epoch.
    fn divides(&self, micro_batch: usize) -> bool {
        let session = self.session;
        // Other batches than the configured one are planned by themselves: they have no epoch.
        let is_configured = self.batch == session.config.train.batch;
        !is_configured || check_micro_batch(session, micro_batch).is_ok()
    }

    /// The stages whose recompute makes every device fit in the least time; all stages if no other choice fits. The
    /// search uses the split points without recompute, and then those with recompute of all stages.
    fn cheapest(&self, micro_batch: usize) -> Result<Vec<bool>, PlanError> {
        let [none, all] = [false, true].map(|recompute| self.all(recompute));
        let kept = self.peak(micro_batch, &none)?;
        if self.fits(kept) {
            return Ok(none);
        }
        // If parameters dominate the peak, recompute only adds to it.
        let least = self.peak(micro_batch, &all)?;
        if !self.fits(least) {
            return Ok(if least < kept { all } else { none });
        }
        let mut before = Vec::new();
        for recompute in [&none, &all] {
            let stages = self.splitter(micro_batch, recompute).stages()?;
            if stages == before {
                break;
            }
            let mut chosen = none.clone();
            for (device, part) in stages.iter().enumerate() {
                let of_part = self.cheapest_of_part(micro_batch, part.clone(), device)?;
                chosen[part.clone()].copy_from_slice(&of_part[part.clone()]);
            }
            // The choice may move the split points, so plan again.
            if self.fits(self.peak(micro_batch, &chosen)?) {
                return Ok(chosen);
            }
            before = stages;
        }
        Ok(all)
    }

    /// The stages of one device whose recompute makes the device fit in the least time.
    fn cheapest_of_part(
        &self,
        micro_batch: usize,
        part: Range<usize>,
        device: usize,
    ) -> Result<Vec<bool>, PlanError> {
        let none = self.all(false);
        let peak = |recompute: &[bool]| match self.session.scatter() {
            Some(_) => self.peak(micro_batch, recompute),
            None => self.splitter(micro_batch, recompute).fullness(part.clone(), device),
        };
        let available = (self.limit_bytes.get() as f64 / (1.0 + self.backend.margin())) as u64;
        let mut missing = peak(&none)?.get().saturating_sub(available);
        if missing == 0 {
            return Ok(none);
        }
        let offers = self.offers(micro_batch, part.clone(), device)?;
        for _ in 0..MOST_PLANS {
            let Some(chosen) = cheapest_cover(&offers, missing) else { break };
            let peak = peak(&chosen)?.get();
            if peak <= available {
                return Ok(chosen);
            }
            // Offers count the bytes at the old peak. Recompute moves the peak, so the plan may still miss some bytes.
            missing += (peak - available).max(missing / 64);
        }
        Ok((0..none.len()).map(|stage| part.contains(&stage)).collect())
    }

    /// The bytes that recompute of each stage of a device would free at the peak, and its time. The bytes are those of
    /// the stage's activations of all micro-batches in flight, less its outputs, which the next stage keeps.
    fn offers(&self, micro_batch: usize, part: Range<usize>, device: usize) -> Result<Vec<Offer>, PlanError> {
        let names = &self.session.stages;
        let splitter = self.splitter(micro_batch, &self.all(false));
        let recording = splitter.recording(part, device)?;
        let costs = forward_costs(&recording, self.session.speeds.of(self.backend));
        let held = activations(&splitter.replayed(&recording, device), names);
        let outputs = stage_output_bytes(self.session, micro_batch);
        let in_flight = splitter.in_flight(device) as u64;
        let offer = |stage: &String, held: u64, output: u64| {
            let bytes = Bytes::new(held.saturating_sub(output.saturating_mul(in_flight)));
            let bytes = bytes_of_smallest(self.session, device, bytes).get();
            Offer { bytes, seconds: costs.get(stage).copied().unwrap_or_default() }
        };
        let stages = names.iter().zip(held).zip(outputs);
        let mut offers: Vec<Offer> =
            stages.map(|((stage, held), output)| offer(stage, held, output)).collect();
        // Backward begins with the last stage, whose activations still exist. Recompute would save nothing.
        if let Some(last) = offers.last_mut() {
            last.bytes = 0;
        }
        Ok(offers)
    }
}

/// The first size that fits, by bisection. `sizes` fall, and all sizes below one that fits are assumed to fit.
fn first_that_fits(sizes: &[usize], fits: impl Fn(usize) -> bool) -> Option<usize> {
    // No size before `from` fits; the size at `to` may.
    let (mut from, mut to) = (0, sizes.len());
    while from < to {
        let middle = from.midpoint(to);
        if fits(sizes[middle]) { to = middle } else { from = middle + 1 }
    }
    sizes.get(to).copied()
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

/// The memory policy in a few words, with the choice of `auto` for the backend and the limit:
/// `bf16 · recompute stages`.
pub fn describe_policy(session: &Session, backend: Backend, limit_bytes: Option<Bytes>) -> String {
    let key = SplitKey { batch: largest_train_batch(session), backend, limit_bytes };
    // Planning reports the error of a split that cannot be chosen.
    describe_split(session, choose(session, key).ok().as_ref())
}

/// The memory policy in a few words, without what `auto` chooses: `bf16 · recompute auto`.
pub fn describe_settings(session: &Session) -> String {
    describe_split(session, None)
}

/// What `auto` chooses for a batch: `micro-batch 16 · recompute layer1.0`. `None` if nothing is `auto`, or if the batch cannot
/// be split.
pub fn describe_choice(session: &Session, key: SplitKey) -> Option<String> {
    let memory = &session.config.memory;
    let (of_micro_batch, of_recompute) =
        (memory.micro_batch == Some(MicroBatch::Auto), memory.recompute == Recompute::Auto);
    if !of_micro_batch && !of_recompute {
        return None;
    }
    let split = choose(session, key).ok()?;
    let micro_batch = of_micro_batch.then(|| format!("micro-batch {}", grouped(split.micro_batch as u64)));
    let recompute = of_recompute.then(|| match names_of_recomputed(session, &split).as_slice() {
        [] => "no recompute".to_owned(),
        names => format!("recompute {}", names.join(", ")),
    });
    Some([micro_batch, recompute].into_iter().flatten().collect::<Vec<_>>().join(" · "))
}

/// The names of the stages that a split recomputes.
fn names_of_recomputed<'a>(session: &'a Session, split: &StepSplit) -> Vec<&'a str> {
    let stages = session.stages.iter().zip(&split.recompute);
    stages.filter(|(_, chosen)| **chosen).map(|(name, _)| name.as_str()).collect()
}

/// The memory policy in a few words, with the split that `auto` chose.
pub(super) fn describe_split(session: &Session, split: Option<&StepSplit>) -> String {
    let memory = &session.config.memory;
    let recompute = match &memory.recompute {
        Recompute::None => None,
        Recompute::Named(names) => Some(format!("recompute {}", names.join(", "))),
        Recompute::Auto => Some(match split.map(|split| names_of_recomputed(session, split)).as_deref() {
            None => "recompute auto".to_owned(),
            Some([]) => "recompute auto: none".to_owned(),
            Some(names) => format!("recompute auto: {}", names.join(", ")),
        }),
        named => named.name().map(|name| format!("recompute {name}")),
    };
    // The caller shows the size of the micro-batch beside that of the batch.
    let micro_batch = (memory.micro_batch == Some(MicroBatch::Auto)).then(|| "micro-batch auto".to_owned());
    let lean = (!memory.lean).then(|| "layers of Burn's operations".to_owned());
    let precision = memory.precision.name().to_owned();
    let released = (memory.gradients == Gradients::Release).then(|| "released gradients".to_owned());
    let offload = (memory.offload != Offload::default())
        .then(|| format!("{} in host memory", memory.offload.name().replace(',', " and ")));
    let words = [Some(precision), recompute, micro_batch, lean, released, offload];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
