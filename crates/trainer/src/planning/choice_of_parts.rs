//! What `auto` comes to where a model is cut over devices: that with which the fullest of them fits.

use std::{iter::once, ops::Range};

use oomph_config::{MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_parallel::Schedule;
use oomph_plan::{Backend, forward_costs};

use super::{
    Choice, Occasion,
    choice::{MOST_PLANS, Offer, activations, cheapest_cover, first_that_fits, recomputed},
    cut::Cutter,
    fits,
};
use crate::{Session, TrainError, micro_batches::micro_batches};

/// As [`choose`](super::choose) for one device: the largest micro-batch, up to the one that there would be without a
/// limit, and of recomputed stages those that each device needs. Every size is cut anew, as it would be trained.
///
/// # Errors
/// Where the model cannot be cut, or refuses every micro-batch.
pub(super) fn choose_for_parts(
    session: &Session,
    schedule: Schedule,
    Occasion { batch, backend, limit_bytes }: Occasion,
) -> Result<Choice, TrainError> {
    let memory = &session.config.memory;
    let all = |recompute: bool| vec![recompute; session.stages.len()];
    let is_auto = memory.recompute == Recompute::Auto;
    let fixed = recomputed(&memory.recompute, &session.stages);
    let (most, least) = if is_auto { (all(false), all(true)) } else { (fixed.clone(), fixed) };
    let whole = match memory.micro_batch {
        Some(MicroBatch::Samples(samples)) => samples.min(batch),
        _ => session.whole_micro_batch(batch),
    };
    let Some(limit_bytes) = limit_bytes else { return Ok(Choice { micro_batch: whole, recompute: most }) };
    let chooser = Chooser { session, schedule, batch, backend, limit_bytes };
    let micro_batch = match memory.micro_batch {
        Some(MicroBatch::Auto) => match chooser.largest_micro_batch(whole, &most) {
            Some(micro_batch) => return Ok(Choice { micro_batch, recompute: most }),
            None => chooser.largest_micro_batch(whole, &least).unwrap_or_else(|| chooser.smallest(whole)),
        },
        _ => whole,
    };
    let recompute = if is_auto { chooser.cheapest(micro_batch)? } else { least };
    Ok(Choice { micro_batch, recompute })
}

struct Chooser<'a> {
    session: &'a Session,
    schedule: Schedule,
    batch: usize,
    backend: Backend,
    /// Of the smallest device.
    limit_bytes: Bytes,
}

impl<'a> Chooser<'a> {
    fn cutter(&self, micro_batch: usize, recompute: &[bool]) -> Cutter<'a> {
        let choice = Choice { micro_batch, recompute: recompute.to_vec() };
        Cutter::with_choice(self.session, self.schedule, (self.batch, self.backend), choice)
    }

    fn fits(&self, peak_bytes: Bytes) -> bool {
        fits(peak_bytes, self.limit_bytes, self.backend)
    }

    fn largest_micro_batch(&self, whole: usize, recompute: &[bool]) -> Option<usize> {
        let smaller = micro_batches(self.batch).filter(|size| *size < whole);
        let sizes: Vec<usize> = once(whole).chain(smaller).collect();
        first_that_fits(&sizes, |size| {
            self.cutter(size, recompute).peak_of_fullest().is_ok_and(|peak| self.fits(peak))
        })
    }

    /// The smallest micro-batch that the model can be trained on.
    fn smallest(&self, whole: usize) -> usize {
        let none = vec![false; self.session.stages.len()];
        // Batch normalisation cannot be trained on one value a channel.
        if self.cutter(1, &none).peak_of_fullest().is_ok() { 1 } else { 2.min(whole) }
    }

    /// The stages whose recomputation makes every device fit at the least time; all of them where nothing else does.
    /// They are looked for where the model is cut without any, and where it is with all.
    fn cheapest(&self, micro_batch: usize) -> Result<Vec<bool>, TrainError> {
        let stages = self.session.stages.len();
        let [none, all] = [false, true].map(|all| vec![all; stages]);
        let kept = self.cutter(micro_batch, &none).peak_of_fullest()?;
        if self.fits(kept) {
            return Ok(none);
        }
        // Where parameters are most of it, what is computed again only adds to them.
        let least = self.cutter(micro_batch, &all).peak_of_fullest()?;
        if !self.fits(least) {
            return Ok(if least < kept { all } else { none });
        }
        for all in [false, true] {
            let cut = self.cutter(micro_batch, &vec![all; stages]).cut()?;
            let mut chosen = vec![false; stages];
            for (device, part) in cut.iter().enumerate() {
                let of_part = self.cheapest_of_part(micro_batch, part.clone(), device)?;
                chosen[part.clone()].copy_from_slice(&of_part[part.clone()]);
            }
            // With these it may be cut elsewhere.
            if self.fits(self.cutter(micro_batch, &chosen).peak_of_fullest()?) {
                return Ok(chosen);
            }
        }
        Ok(all)
    }

    /// The same of one device's stages, with none of any other's.
    fn cheapest_of_part(
        &self,
        micro_batch: usize,
        part: Range<usize>,
        device: usize,
    ) -> Result<Vec<bool>, TrainError> {
        let none = vec![false; self.session.stages.len()];
        let peak = |recompute: &[bool]| self.cutter(micro_batch, recompute).fullness(part.clone(), device);
        let room = (self.limit_bytes.get() as f64 / (1.0 + self.backend.margin())) as u64;
        let mut missing = peak(&none)?.get().saturating_sub(room);
        if missing == 0 {
            return Ok(none);
        }
        let offers = self.offers(micro_batch, part.clone(), device)?;
        for _ in 0..MOST_PLANS {
            let Some(chosen) = cheapest_cover(&offers, missing) else { break };
            let peak = peak(&chosen)?.get();
            if peak <= room {
                return Ok(chosen);
            }
            // What becomes the highest moment then, a plan tells.
            missing += (peak - room).max(missing / 64);
        }
        Ok((0..none.len()).map(|stage| part.contains(&stage)).collect())
    }

    /// What each of a device's stages offers: what it keeps at the highest moment, of all micro-batches in flight, less
    /// its outputs, which the next stage keeps.
    fn offers(
        &self,
        micro_batch: usize,
        part: Range<usize>,
        device: usize,
    ) -> Result<Vec<Offer>, TrainError> {
        let names = &self.session.stages;
        let cutter = self.cutter(micro_batch, &vec![false; names.len()]);
        let recording = cutter.recording(part, device)?;
        let costs = forward_costs(&recording, self.backend);
        let held = activations(&cutter.replayed(&recording, device), names);
        let outputs = self.session.stage_output_bytes(micro_batch)?;
        let in_flight = cutter.in_flight(device) as u64;
        let offer = |((stage, held), output): ((&String, u64), u64)| {
            let bytes = Bytes::new(held.saturating_sub(output.saturating_mul(in_flight)));
            let bytes = self.session.bytes_of_smallest(device, bytes).get();
            Offer { bytes, seconds: costs.get(stage).copied().unwrap_or_default() }
        };
        Ok(names.iter().zip(held).zip(outputs).map(offer).collect())
    }
}
