use oomph_config::{Change, MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_engine::session::{Session, backend};
use oomph_plan::Backend;

use super::{
    choice::chosen,
    fit::strongest,
    one_device::plan,
    options::{PlanOptions, fits},
};
use crate::{error::PlanError, varied::varied};

/// A batch, and what its plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNeed {
    /// The batch. With replicas it is that of all replicas together.
    pub batch: usize,
    /// Its planned need: what the pools of a GPU reserve, else the planned peak.
    pub planned_peak_bytes: Bytes,
}

/// The largest batch up to `most` that fits `limit_bytes`; `None` if no batch fits. With replicas it is the batch of
/// all replicas together. `planned` are plans with the same options that are there already. With `memory.fit = "auto"` its need is
/// that of the leanest combination of levers.
///
/// Peaks grow nearly in proportion to the batch, so the search needs few plans. Each guess is on the line through the
/// two closest plans. Every fourth guess is independent of the line, in case it misleads.
///
/// # Errors
/// If the model refuses every batch.
pub fn largest_batch(
    session: &Session,
    options: PlanOptions,
    limit_bytes: Bytes,
    most: usize,
    planned: &[BatchNeed],
) -> Result<Option<BatchNeed>, PlanError> {
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let options = PlanOptions { backend: Some(backend), ..options };
    let fits = |need: &BatchNeed| fits(need.planned_peak_bytes, limit_bytes, backend);
    let extremes = extremes(session, backend);
    let need = |batch: usize| -> Result<BatchNeed, PlanError> {
        let mut least = need_of(extremes.first().unwrap_or(session), options, batch);
        for extreme in extremes.iter().skip(1) {
            if least.as_ref().is_ok_and(fits) {
                break;
            }
            match (&least, need_of(extreme, options, batch)) {
                (Ok(known), Ok(other)) if other.planned_peak_bytes >= known.planned_peak_bytes => {}
                (Ok(_), Err(_)) => {}
                (_, other) => least = other,
            }
        }
        least
    };
    if session.awaits_fit()
        && let Ok(all) = need(most)
        && fits(&all)
    {
        // Micro-batches make any batch fit that has memory for one sample at a time.
        return Ok(Some(all));
    }
    // Each replica has at least one sample. Batch normalisation cannot be trained on one value per channel.
    let world = session.world_size();
    let smallest = || need(world).or_else(|_| need(2 * world));

    let mut known: Vec<_> = planned.iter().filter(|need| need.batch <= most).copied().collect();
    if !extremes.is_empty() {
        // What `auto` chose lies anywhere below the limit, and on no line.
        known = known.into_iter().map(|known| need(known.batch)).collect::<Result<_, _>>()?;
    }
    if !known.iter().any(fits) {
        known.push(smallest()?);
    }
    known.sort_by_key(|need| need.batch);
    let Some(low) = known.iter().rposition(fits) else { return Ok(None) };
    let mut search = Search {
        below: low.checked_sub(1).map(|below| known[below]),
        low: known[low],
        above: known.get(low + 1).copied(),
        most,
        available: limit_bytes.get() as f64 / (1.0 + backend.margin()),
        step: 8,
        turn: 0,
    };
    while let Some(guess) = search.next_guess() {
        let found = need(guess)?;
        if fits(&found) {
            search.rise(found);
        } else {
            search.above = Some(found);
        }
    }
    match extremes.is_empty() || session.awaits_fit() {
        true => Ok(Some(search.low)),
        false => need_of(session, options, search.low.batch).map(Some),
    }
}

/// The sessions of which one fits where `auto` finds something that fits, by more plans than one: with `memory.fit = "auto"` those of
/// its strongest switches; with `memory.recompute = "auto"` that with every stage recomputed, and with none. Empty where `auto`
/// chooses nothing that needs as many plans.
fn extremes(session: &Session, backend: Backend) -> Vec<Session> {
    let memory = &session.config.memory;
    if session.awaits_fit() {
        return strongest(session, backend);
    }
    if memory.recompute != Recompute::Auto || memory.micro_batch == Some(MicroBatch::Auto) {
        return Vec::new();
    }
    let choices = [Recompute::Stages, Recompute::None];
    choices.into_iter().filter_map(|choice| varied(session, &[Change::Recompute(choice)]).ok()).collect()
}

/// What the plan of a batch needs.
fn need_of(session: &Session, options: PlanOptions, batch: usize) -> Result<BatchNeed, PlanError> {
    let peak_of = |planned: usize| -> Result<BatchNeed, PlanError> {
        let timeline = plan(session, PlanOptions { batch: Some(planned), ..options })?;
        Ok(BatchNeed { batch, planned_peak_bytes: timeline.needed_bytes() })
    };
    peak_of(batch).or_else(|error| {
        // The model may refuse a smaller last micro-batch. The whole micro-batches have the same peak.
        let split = chosen(session, PlanOptions { batch: Some(batch), ..options })?.split;
        let rest = session.share_of(batch) % split.micro_batch.max(1);
        if rest == 0 { Err(error) } else { peak_of(batch - rest) }
    })
}

/// The search for the largest batch that fits.
struct Search {
    /// A smaller batch than `low`.
    below: Option<BatchNeed>,
    /// The largest batch so far that fits.
    low: BatchNeed,
    /// The smallest one so far that does not.
    above: Option<BatchNeed>,
    /// The largest batch that is asked for.
    most: usize,
    /// The bytes that a plan may need.
    available: f64,
    /// How far a guess without the line goes beyond `low`.
    step: usize,
    turn: usize,
}

impl Search {
    /// The next batch to plan, above `low` and below `above`; `None` at the end.
    fn next_guess(&mut self) -> Option<usize> {
        let last = self.above.map_or(self.most, |above| above.batch - 1);
        if last <= self.low.batch {
            return None;
        }
        self.turn += 1;
        // Where peaks bend, the line alone would move on by small steps.
        let line = self.above.or(self.below).filter(|_| !self.turn.is_multiple_of(4));
        let guess = match (line, self.above) {
            (Some(other), _) => self.on_line(other),
            (None, Some(above)) => self.low.batch.midpoint(above.batch),
            (None, None) => self.low.batch.saturating_add(self.step),
        };
        Some(guess.clamp(self.low.batch + 1, last))
    }

    /// Where the line through `low` and another plan meets the available bytes; beyond all batches if it does not rise.
    fn on_line(&self, other: BatchNeed) -> usize {
        let bytes = |need: BatchNeed| need.planned_peak_bytes.get() as f64;
        let samples = other.batch as f64 - self.low.batch as f64;
        let slope = (bytes(other) - bytes(self.low)) / samples;
        if slope <= 0.0 {
            return usize::MAX;
        }
        self.low.batch.saturating_add(((self.available - bytes(self.low)) / slope) as usize)
    }

    /// A larger batch fits.
    fn rise(&mut self, found: BatchNeed) {
        self.step = self.step.max(found.batch - self.low.batch).saturating_mul(8);
        (self.below, self.low) = (Some(self.low), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(batch: usize, bytes: u64) -> BatchNeed {
        BatchNeed { batch, planned_peak_bytes: Bytes::new(bytes) }
    }

    fn between(low: BatchNeed, above: Option<BatchNeed>, available: f64) -> Search {
        Search { below: None, low, above, most: 1000, available, step: 8, turn: 0 }
    }

    #[test]
    fn a_guess_lies_strictly_between() {
        let guess = |low, above, available| between(low, Some(above), available).next_guess();
        assert_eq!(guess(at(1, 10), at(101, 1010), 505.0), Some(50));
        assert_eq!(guess(at(1, 10), at(3, 1010), 11.0), Some(2));
        assert_eq!(guess(at(1, 10), at(3, 1010), 1009.0), Some(2));
        assert_eq!(guess(at(2, 10), at(3, 1010), 11.0), None);
    }

    #[test]
    fn without_a_batch_that_does_not_fit_a_guess_goes_on() {
        let mut search = between(at(1, 10), None, 1009.0);
        assert_eq!(search.next_guess(), Some(9));
        search.rise(at(9, 90));
        // On the line through both, and as far as is asked for.
        assert_eq!(search.next_guess(), Some(100));
        search.rise(at(100, 100));
        assert_eq!(search.next_guess(), Some(1000));
        search.rise(at(1000, 1000));
        assert_eq!(search.next_guess(), None);
    }

    #[test]
    fn each_search_ends_at_the_largest_batch_that_fits() {
        // Peaks that grow evenly, that bend, in steps, and not at all.
        let peaks: [fn(usize) -> u64; 4] = [
            |batch| 7 + 3 * batch as u64,
            |batch| (batch * batch) as u64,
            |batch| (batch.div_ceil(64) * 64) as u64,
            |_| 5,
        ];
        for (peak, available) in peaks.into_iter().flat_map(|peak| [5, 500, 1500, 5000].map(|it| (peak, it)))
        {
            let mut search = between(at(1, peak(1)), None, available as f64);
            if peak(1) > available {
                continue;
            }
            let mut plans = 0;
            while let Some(guess) = search.next_guess() {
                plans += 1;
                match at(guess, peak(guess)) {
                    fitting if peak(guess) <= available => search.rise(fitting),
                    above => search.above = Some(above),
                }
            }
            let largest = (1..=1000).rfind(|batch| peak(*batch) <= available);
            assert_eq!(Some(search.low.batch), largest);
            assert!(plans <= 20, "{plans} plans");
        }
    }
}
