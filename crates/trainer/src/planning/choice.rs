//! What `auto` comes to: the micro-batch and the recomputed stages that fit a limit at the least time.

use oomph_config::{MicroBatch, Recompute};
use oomph_core::{Bytes, Phase, is_within};
use oomph_memory::{Category, SpanKind, Timeline};
use oomph_plan::{Backend, Recording, forward_costs};

use super::{Work, choice_of_parts::choose_for_parts, fits, record::record, replayed};
use crate::{Session, TrainError, micro_batches::micro_batches};

/// How a step is cut where the configuration leaves it to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Samples of one forward-backward.
    pub(crate) micro_batch: usize,
    /// Which stages compute their activations again in backward.
    pub(crate) recompute: Vec<bool>,
}

/// What a choice is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Occasion {
    /// Samples of an optimizer step.
    pub(crate) batch: usize,
    /// Whose allocator.
    pub(crate) backend: Backend,
    /// What the device may use, where that is known.
    pub(crate) limit_bytes: Option<Bytes>,
}

/// What fits the limit: the largest micro-batch, where that is `auto`, and of recomputed stages those that
/// take least time, where they are.
///
/// Smaller micro-batches cost less time than recomputation, so that with both `auto` they are tried first. Where nothing
/// fits it is what needs least. Without a limit nothing is saved.
///
/// # Errors
/// Where the model refuses every micro-batch.
pub(crate) fn choose(session: &Session, occasion: Occasion) -> Result<Choice, TrainError> {
    if let Some(schedule) = session.pipeline_schedule() {
        return choose_for_parts(session, schedule, occasion);
    }
    let Occasion { batch, backend, limit_bytes } = occasion;
    let chooser = Chooser { session, backend, batch };
    let (micro_batch, recompute) = (&session.config.memory.micro_batch, &session.config.memory.recompute);
    let stages = session.stages.as_slice();
    let all = |recompute: bool| vec![recompute; stages.len()];
    let least = match recompute {
        Recompute::Auto => all(true),
        fixed => recomputed(fixed, stages),
    };
    let most = if *recompute == Recompute::Auto { all(false) } else { least.clone() };
    let whole = match micro_batch {
        Some(MicroBatch::Samples(samples)) => (*samples).min(chooser.batch),
        _ => chooser.batch,
    };
    let Some(limit) = limit_bytes else { return Ok(Choice { micro_batch: whole, recompute: most }) };
    let micro_batch = match micro_batch {
        Some(MicroBatch::Auto) => match chooser.largest_micro_batch(&most, limit) {
            Some(micro_batch) => return Ok(Choice { micro_batch, recompute: most }),
            None => chooser.largest_micro_batch(&least, limit).unwrap_or_else(|| chooser.smallest()),
        },
        _ => whole,
    };
    let recompute = match recompute {
        Recompute::Auto => chooser.cheapest(micro_batch, stages, limit)?,
        _ => least,
    };
    Ok(Choice { micro_batch, recompute })
}

/// The stages that a setting names.
pub(crate) fn recomputed(setting: &Recompute, stages: &[String]) -> Vec<bool> {
    match setting {
        Recompute::None | Recompute::Ops | Recompute::Auto => vec![false; stages.len()],
        Recompute::Stages => vec![true; stages.len()],
        Recompute::Named(named) => {
            stages.iter().map(|stage| named.iter().any(|name| is_within(stage, name))).collect()
        }
    }
}

struct Chooser<'a> {
    session: &'a Session,
    backend: Backend,
    batch: usize,
}

/// What recomputing a stage buys, and for what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offer {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl Chooser<'_> {
    fn recording(&self, micro_batch: usize, recompute: &[bool]) -> Result<Recording, TrainError> {
        let choice = Choice { micro_batch, recompute: recompute.to_vec() };
        record(self.session, &Work::of_steps(self.session, self.batch, choice), self.backend)
    }

    fn peak(&self, micro_batch: usize, recompute: &[bool]) -> Result<Bytes, TrainError> {
        let recording = self.recording(micro_batch, recompute)?;
        Ok(replayed(self.session, &recording, self.batch, self.backend).peak().categories.total())
    }

    /// The smallest micro-batch that the model can be trained on.
    fn smallest(&self) -> usize {
        let recompute = Vec::new();
        // Batch normalisation cannot be trained on one value a channel.
        if self.peak(1, &recompute).is_ok() { 1 } else { 2.min(self.batch) }
    }

    /// The largest part of the batch that fits; `None` where none does. Peaks grow with it.
    fn largest_micro_batch(&self, recompute: &[bool], limit: Bytes) -> Option<usize> {
        let sizes: Vec<usize> = std::iter::once(self.batch).chain(micro_batches(self.batch)).collect();
        first_that_fits(&sizes, |size| {
            // What cannot be trained, as a rest of one sample may be, is no answer.
            self.peak(size, recompute).is_ok_and(|peak| fits(peak, limit, self.backend))
        })
    }

    /// The stages whose recomputation makes the step fit at the least time; all of them where nothing else does.
    fn cheapest(&self, micro_batch: usize, stages: &[String], limit: Bytes) -> Result<Vec<bool>, TrainError> {
        let none = vec![false; stages.len()];
        let recording = self.recording(micro_batch, &none)?;
        let kept = replayed(self.session, &recording, self.batch, self.backend);
        let room = (limit.get() as f64 / (1.0 + self.backend.margin())) as u64;
        let mut missing = kept.peak().categories.total().get().saturating_sub(room);
        if missing == 0 {
            return Ok(none);
        }
        let offers = self.offers(&recording, &kept, micro_batch, stages)?;
        // The offers are what a stage keeps at the highest moment; what becomes the highest then, a plan tells.
        for _ in 0..MOST_PLANS {
            let Some(chosen) = cheapest_cover(&offers, missing) else { break };
            let peak = self.peak(micro_batch, &chosen)?.get();
            if peak <= room {
                return Ok(chosen);
            }
            missing += (peak - room).max(missing / 64);
        }
        Ok(vec![true; stages.len()])
    }

    /// What each stage offers: what it keeps at the highest moment, less its output, which the next stage keeps.
    fn offers(
        &self,
        recording: &Recording,
        kept: &Timeline,
        micro_batch: usize,
        stages: &[String],
    ) -> Result<Vec<Offer>, TrainError> {
        let costs = forward_costs(recording, self.backend);
        let outputs = self.session.stage_output_bytes(micro_batch)?;
        let held = activations(kept, stages);
        let offers = stages.iter().zip(held).zip(outputs).map(|((stage, held), output)| Offer {
            bytes: held.saturating_sub(output),
            seconds: costs.get(stage).copied().unwrap_or_default(),
        });
        let mut offers: Vec<Offer> = offers.collect();
        // Backward begins with the last stage, while all it computed is there.
        if let Some(last) = offers.last_mut() {
            last.bytes = 0;
        }
        Ok(offers)
    }
}

/// The first of some sizes, the largest first, that fits. Those behind one that does are taken to fit too.
pub(super) fn first_that_fits(sizes: &[usize], fits: impl Fn(usize) -> bool) -> Option<usize> {
    // Nothing up to `from` fits, if anything; `to` may.
    let (mut from, mut to) = (0, sizes.len());
    while from < to {
        let middle = from.midpoint(to);
        if fits(sizes[middle]) { to = middle } else { from = middle + 1 }
    }
    sizes.get(to).copied()
}

/// Guesses that are planned before all stages are taken.
pub(super) const MOST_PLANS: usize = 12;

/// Bytes of activations that each stage keeps at the highest moment of the last step.
pub(super) fn activations(timeline: &Timeline, stages: &[String]) -> Vec<u64> {
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

/// The offers that together have at least so many `bytes` and take the least time: dynamic programming over bytes, in
/// steps that are rounded so that what is chosen has no less than it seems. `None` where all together have less.
pub(super) fn cheapest_cover(offers: &[Offer], bytes: u64) -> Option<Vec<bool>> {
    const STEPS: usize = 2048;
    let step = bytes.div_ceil(STEPS as u64).max(1);
    let target = bytes.div_ceil(step) as usize;
    // The least seconds with which so many steps are had, and the offers for it.
    let mut best: Vec<Option<(f64, Vec<usize>)>> = vec![None; target + 1];
    best[0] = Some((0.0, Vec::new()));
    for (index, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.bytes >= step) {
        let gain = (offer.bytes / step) as usize;
        for from in (0..=target).rev() {
            let Some((seconds, chosen)) = best[from].clone() else { continue };
            let to = (from + gain).min(target);
            let seconds = seconds + offer.seconds;
            if to > from && best[to].as_ref().is_none_or(|(known, _)| seconds < *known) {
                let chosen = chosen.into_iter().chain([index]).collect();
                best[to] = Some((seconds, chosen));
            }
        }
    }
    let (_, chosen) = best.pop()??;
    Some((0..offers.len()).map(|index| chosen.contains(&index)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_group_names_its_stages_and_no_others() {
        let stages = ["stem", "layer1.0", "layer1.1", "layer10.0"].map(str::to_owned);
        let named = |name: &str| recomputed(&Recompute::Named(vec![name.to_owned()]), &stages);
        assert_eq!(named("layer1"), [false, true, true, false]);
        assert_eq!(named("layer1.1"), [false, false, true, false]);
    }

    proptest! {
        #[test]
        fn the_cover_is_the_cheapest_there_is(
            offers in prop::collection::vec((0u64..1000, 1u32..100), 1..9),
            bytes in 1u64..2000,
        ) {
            let offers: Vec<Offer> = offers.into_iter()
                .map(|(bytes, seconds)| Offer { bytes, seconds: f64::from(seconds) })
                .collect();
            let of = |chosen: &[bool]| offers.iter().zip(chosen).filter(|(_, chosen)| **chosen)
                .fold((0, 0.0), |(bytes, seconds), (offer, _)| (bytes + offer.bytes, seconds + offer.seconds));
            let least = (0..1u32 << offers.len())
                .map(|bits| of(&(0..offers.len()).map(|index| bits >> index & 1 == 1).collect::<Vec<_>>()))
                .filter(|(have, _)| *have >= bytes)
                .map(|(_, seconds)| seconds)
                .min_by(f64::total_cmp);
            let found = cheapest_cover(&offers, bytes).map(|chosen| of(&chosen));
            prop_assert_eq!(found.map(|(_, seconds)| seconds), least);
            prop_assert!(found.is_none_or(|(have, _)| have >= bytes));
        }
    }
}
