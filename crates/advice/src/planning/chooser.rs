//! The search for the split of a step that fits a limit in the least time.

use std::{iter::once, ops::Range};

use oomph_config::{MicroBatch, Recompute};
use oomph_core::{Bytes, threads::map};
use oomph_engine::{
    micro_batches::micro_batches,
    session::{Session, StepSplit},
};
use oomph_plan::Backend;

use super::{cover::cheapest_cover, micro_batch_check::check_micro_batch, options::fits, plans::Plans};
use crate::error::PlanError;

/// Searches splits of a step of one session.
pub(super) struct Chooser<'a> {
    pub(super) plans: Plans<'a>,
    /// The limit of the smallest device.
    limit_bytes: Bytes,
}

/// A split that fits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitting {
    pub(super) split: StepSplit,
    pub(super) peak_bytes: Bytes,
    /// Seconds of a step. Only ratios mean something where the speed of the device is not known.
    pub(super) seconds: f64,
}

impl Fitting {
    /// Times that differ less than this are equal.
    pub(super) const TIE: f64 = 0.005;

    /// Whether it takes clearly less time than `seconds`.
    pub(super) fn beats(&self, seconds: f64) -> bool {
        self.seconds < seconds * (1.0 - Self::TIE)
    }
}

/// What the configuration leaves to `auto`.
#[derive(Clone, Copy, Debug)]
struct Free {
    micro_batch: bool,
    recompute: bool,
}

impl Free {
    fn of(session: &Session) -> Self {
        let memory = &session.config.memory;
        Self {
            micro_batch: memory.micro_batch == Some(MicroBatch::Auto),
            recompute: memory.recompute == Recompute::Auto,
        }
    }
}

/// The number of plans after which all stages recompute.
const MOST_PLANS: usize = 12;

/// So many micro-batches of a batch are an exception: the largest size is all of it, the second half of it.
const FEW: usize = 2;

/// The share of the recompute that offers ask for which a plan takes in any case. Their bytes are those at the peak without recompute.
const SURE: f64 = 0.75;

/// Where nothing fits without recompute: the smallest micro-batch to look at is the largest one that fits with it, divided by this.
const MOST_SMALLER: usize = 8;

impl<'a> Chooser<'a> {
    pub(super) fn new(session: &'a Session, batch: usize, backend: Backend, limit_bytes: Bytes) -> Self {
        Self { plans: Plans::new(session, batch, backend), limit_bytes }
    }

    /// Another limit, with all plans so far.
    pub(super) fn set_limit(&mut self, limit_bytes: Bytes) {
        self.limit_bytes = limit_bytes;
    }

    /// The split that fits in the least time; if none fits, one with a low planned peak. `fixed` is the split without a limit: the
    /// largest micro-batch, and no recompute if that is `auto`.
    pub(super) fn choose(&self, fixed: &StepSplit) -> Result<StepSplit, PlanError> {
        match self.fastest(fixed, f64::INFINITY)? {
            Some(found) => Ok(found.split),
            None => self.leanest(fixed),
        }
    }

    /// The split that fits in the least time, if that is clearly less than `below` seconds. A later candidate counts only where it
    /// beats the earlier ones: first few and large micro-batches without recompute, then larger ones with some.
    pub(super) fn fastest(&self, fixed: &StepSplit, below: f64) -> Result<Option<Fitting>, PlanError> {
        let free = Free::of(self.plans.session);
        let StepSplit { micro_batch: whole, recompute } = fixed;
        // Smaller micro-batches and recompute only add to the time.
        if self.plans.seconds(*whole, recompute)? >= below {
            return Ok(None);
        }
        let plain = match free.micro_batch {
            // Without recompute no input waits in host memory.
            _ if free.recompute && self.plans.session.config.memory.offload.activations => None,
            true => self.largest_micro_batch(*whole, recompute),
            false => Some(*whole)
                .filter(|size| self.plans.peak(*size, recompute).is_ok_and(|peak| self.fits(peak))),
        };
        let plain = plain.map(|size| self.fitting(size, recompute.clone())).transpose()?;
        let above = plain.as_ref().map(|plain| plain.split.micro_batch);
        let mut best = plain.filter(|plain| plain.beats(below));
        if free.recompute && (free.micro_batch || best.is_none()) {
            for (least, size) in self.by_least_seconds(&self.sizes_to_recompute(*whole, above))? {
                let below = best.as_ref().map_or(below, |best| best.seconds);
                if least < below {
                    best = self.fastest_of_size(size)?.filter(|found| found.beats(below)).or(best);
                }
            }
        }
        Ok(best)
    }

    /// The micro-batches to look at with recompute: larger ones than `plain`, which fits without it.
    fn sizes_to_recompute(&self, whole: usize, plain: Option<usize>) -> Vec<usize> {
        if !Free::of(self.plans.session).micro_batch {
            return vec![whole];
        }
        let Some(largest) = self.largest_micro_batch(whole, &self.plans.all(true)) else { return Vec::new() };
        let above = plain.unwrap_or(largest / MOST_SMALLER);
        let mut sizes: Vec<usize> = few_of(&self.sizes(whole)).chain([largest]).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.dedup();
        sizes.retain(|size| *size > above && *size <= largest && self.divides(*size));
        sizes
    }

    /// The micro-batches with the seconds that a step takes at least, the fastest first.
    fn by_least_seconds(&self, sizes: &[usize]) -> Result<Vec<(f64, usize)>, PlanError> {
        let with_seconds = map(sizes, |size| Ok((self.least_seconds(*size)?, *size))).into_iter();
        let mut sizes: Vec<(f64, usize)> = with_seconds.collect::<Result<_, PlanError>>()?;
        sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(sizes)
    }

    /// The seconds that a step of this micro-batch takes at least, with as much recompute as the limit asks for.
    fn least_seconds(&self, size: usize) -> Result<f64, PlanError> {
        let none = self.plans.all(false);
        let seconds = self.plans.seconds(size, &none)?;
        if self.plans.session.has_uneven_devices() {
            return Ok(seconds);
        }
        let missing = self.plans.peak(size, &none)?.get().saturating_sub(self.available());
        let offers = self.plans.offers(size, 0..none.len(), 0)?;
        let Some(chosen) = cheapest_cover(&offers, missing) else { return Ok(seconds) };
        let recomputed = offers.iter().zip(chosen).filter(|(_, chosen)| *chosen);
        Ok(seconds + SURE * recomputed.map(|(offer, _)| offer.seconds).sum::<f64>())
    }

    /// The fastest choice of recomputed stages for a micro-batch, if one fits.
    fn fastest_of_size(&self, size: usize) -> Result<Option<Fitting>, PlanError> {
        let [none, all] = [false, true].map(|recompute| self.plans.all(recompute));
        if !self.fits(self.plans.peak(size, &all)?) && !self.fits(self.plans.peak(size, &none)?) {
            return Ok(None);
        }
        let chosen = self.cheapest(size)?;
        self.fitting(size, chosen).map(Some)
    }

    fn fitting(&self, micro_batch: usize, recompute: Vec<bool>) -> Result<Fitting, PlanError> {
        let peak_bytes = self.plans.peak(micro_batch, &recompute)?;
        let seconds = self.plans.seconds(micro_batch, &recompute)?;
        Ok(Fitting { split: StepSplit { micro_batch, recompute }, peak_bytes, seconds })
    }

    /// A split with a low planned peak, where none fits.
    pub(super) fn leanest(&self, fixed: &StepSplit) -> Result<StepSplit, PlanError> {
        let free = Free::of(self.plans.session);
        let StepSplit { micro_batch: whole, recompute } = fixed;
        let least = if free.recompute { self.plans.all(true) } else { recompute.clone() };
        let micro_batch = if free.micro_batch { self.leanest_micro_batch(*whole, &least) } else { *whole };
        let recompute = if free.recompute { self.cheapest(micro_batch)? } else { least };
        Ok(StepSplit { micro_batch, recompute })
    }

    /// The bytes that a plan may need.
    fn available(&self) -> u64 {
        (self.limit_bytes.get() as f64 / (1.0 + self.plans.backend.margin())) as u64
    }

    fn fits(&self, peak_bytes: Bytes) -> bool {
        fits(peak_bytes, self.limit_bytes, self.plans.backend)
    }

    /// The largest micro-batch that fits; `None` if none does.
    ///
    /// Peaks fall with the micro-batch, with two exceptions: a second one needs sums of gradients, and between the first
    /// and the last one no bucket of replicas leaves. So these three kinds are searched one after the other.
    fn largest_micro_batch(&self, whole: usize, recompute: &[bool]) -> Option<usize> {
        let sizes = self.sizes(whole);
        let (few, many) = sizes.split_at(FEW.min(sizes.len()));
        // The model may refuse a micro-batch, for example one whose rest is one sample.
        let fits = |size: usize| self.plans.peak(size, recompute).is_ok_and(|peak| self.fits(peak));
        let first = few.iter().copied().find(|size| fits(*size) && self.divides(*size));
        first.or_else(|| {
            // Where the smallest one does not fit, no other does.
            let smallest = many.iter().rev().find_map(|size| self.plans.peak(*size, recompute).ok())?;
            let first = self.fits(smallest).then(|| first_that_fits(many, fits))??;
            many.iter().copied().skip_while(|size| *size > first).find(|size| self.divides(*size))
        })
    }

    /// `whole`, and the smaller micro-batches.
    fn sizes(&self, whole: usize) -> Vec<usize> {
        let smaller =
            micro_batches(self.plans.session.share_of(self.plans.batch)).filter(|size| *size < whole);
        once(whole).chain(smaller).collect()
    }

    /// The micro-batch with the lowest planned peak, where none fits: few large ones, or the smallest ones that the model can
    /// be trained on. Batch normalisation cannot be trained on one value per channel.
    fn leanest_micro_batch(&self, whole: usize, recompute: &[bool]) -> usize {
        let peak = |size: usize| self.divides(size).then(|| self.plans.peak(size, recompute).ok()).flatten();
        let smallest = (1..whole).find_map(|size| Some((peak(size)?, size)));
        let few = self.sizes(whole).into_iter().take(FEW);
        let leanest = few.filter_map(|size| Some((peak(size)?, size))).chain(smallest).min();
        leanest.map_or(whole, |(_, size)| size)
    }

    /// Whether the model can be trained on what a micro-batch leaves of every batch, and of the last one of an epoch.
    fn divides(&self, micro_batch: usize) -> bool {
        let session = self.plans.session;
        // Other batches than the configured one are planned by themselves: they have no epoch.
        let is_configured = self.plans.batch == session.config.train.batch;
        !is_configured || check_micro_batch(session, micro_batch).is_ok()
    }

    /// The stages whose recompute makes every device fit in the least time; all stages if no other choice fits. The
    /// search uses the split points without recompute, and then those with recompute of all stages.
    fn cheapest(&self, micro_batch: usize) -> Result<Vec<bool>, PlanError> {
        let [none, all] = [false, true].map(|recompute| self.plans.all(recompute));
        let kept = self.plans.peak(micro_batch, &none)?;
        if self.fits(kept) {
            return Ok(none);
        }
        // If parameters dominate the peak, recompute only adds to it.
        let least = self.plans.peak(micro_batch, &all)?;
        if !self.fits(least) {
            return Ok(if least < kept { all } else { none });
        }
        let mut before = Vec::new();
        for recompute in [&none, &all] {
            let stages = self.plans.splitter(micro_batch, recompute).stages()?;
            if stages == before {
                break;
            }
            let mut chosen = none.clone();
            for (device, part) in stages.iter().enumerate() {
                let of_part = self.cheapest_of_part(micro_batch, part.clone(), device)?;
                chosen[part.clone()].copy_from_slice(&of_part[part.clone()]);
            }
            // The choice may move the split points, so plan again.
            if self.fits(self.plans.peak(micro_batch, &chosen)?) {
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
        let none = self.plans.all(false);
        let peak = |recompute: &[bool]| match self.plans.session.scatter() {
            Some(_) => self.plans.peak(micro_batch, recompute),
            None => self.plans.splitter(micro_batch, recompute).fullness(part.clone(), device),
        };
        let available = self.available();
        let mut missing = peak(&none)?.get().saturating_sub(available);
        if missing == 0 {
            return Ok(none);
        }
        let offers = self.plans.offers(micro_batch, part.clone(), device)?;
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

/// Those of the sizes from one to the next of which the number of micro-batches grows by half or more: 1, 2, 3, 4, 6, 8, 12 …
fn few_of(sizes: &[usize]) -> impl Iterator<Item = usize> {
    let mut last = usize::MAX;
    sizes.iter().copied().filter(move |size| {
        let is_next = last == usize::MAX || *size <= last / 2 + last / 4;
        if is_next {
            last = *size;
        }
        is_next
    })
}
