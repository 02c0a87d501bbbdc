use std::collections::BTreeMap;

use oomph_core::Bytes;

/// Finds the largest batch that fits with few probes. The search starts with the largest batch that fits by plan, and
/// corrects the plan by what probes measure. It ends when one batch fits and the next larger one does not.
///
/// The search executes nothing: [`next`](Self::next) returns the batch to probe, [`tell`](Self::tell) takes the result.
#[derive(Clone, Debug)]
pub struct BatchSearch {
    /// The first and the last candidate. A candidate times `multiple_of` is a batch.
    first: usize,
    last: usize,
    multiple_of: usize,
    limit_bytes: Option<Bytes>,
    most_tries: usize,
    tried: BTreeMap<usize, Tried>,
    /// Whether the search ended because no batch is left to probe, and not because all probes are used.
    is_over: bool,
}

/// The result of probing a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tried {
    /// The batch fits.
    Fits {
        /// The measured peak as a share of the planned peak; 1 if it was not measured.
        of_planned: f64,
    },
    /// The batch does not fit.
    TooLarge,
}

/// Plans of batches.
pub trait Planned {
    /// The planned peak of a batch; `None` if the batch cannot be planned.
    fn peak(&mut self, batch: usize) -> Option<Bytes>;

    /// Whether the model can be trained on all batches of an epoch, including the smaller last one.
    fn is_allowed(&mut self, batch: usize) -> bool;
}

/// There is no batch to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no batch from {least} to {most}{}", multiple(*.multiple_of))]
pub struct SearchError {
    /// The smallest allowed batch.
    pub least: usize,
    /// The largest allowed batch.
    pub most: usize,
    /// The number that the batch must be a multiple of.
    pub multiple_of: usize,
}

fn multiple(of: usize) -> String {
    if of > 1 { format!(" that is a multiple of {of}") } else { String::new() }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The largest probed batch that fits.
    pub largest: Option<usize>,
    /// Whether no larger batch fits: the next larger one was probed, or there is none.
    pub is_proven: bool,
}

/// Shares of the limit to aim at after the first, second and third probe that did not fit. No plan was ever 1 % too
/// low, so lower shares are for other causes.
const LESS: [f64; 3] = [0.99, 0.9, 0.5];

impl BatchSearch {
    /// Searches batches from `least` to `most` that are multiples of `multiple_of`, with at most `most_tries` probes.
    ///
    /// # Errors
    /// If there is no such batch.
    pub fn new(
        least: usize,
        most: usize,
        multiple_of: usize,
        limit_bytes: Option<Bytes>,
        most_tries: usize,
    ) -> Result<Self, SearchError> {
        let multiple_of = multiple_of.max(1);
        let (first, last) = (least.max(1).div_ceil(multiple_of), most / multiple_of);
        if first > last {
            return Err(SearchError { least, most, multiple_of });
        }
        let (tried, is_over) = (BTreeMap::new(), false);
        Ok(Self { first, last, multiple_of, limit_bytes, most_tries, tried, is_over })
    }

    /// Corrects the limit by what a probe has seen of the device.
    pub fn set_limit(&mut self, limit_bytes: Bytes) {
        self.limit_bytes = Some(limit_bytes);
    }

    /// The batch to probe next; `None` if the search is over.
    pub fn next(&mut self, planned: &mut dyn Planned) -> Option<usize> {
        if self.tried.len() >= self.most_tries {
            return None;
        }
        let next = match self.low() {
            None => self.below(planned),
            Some((low, of_planned)) => self.above(low, of_planned, planned),
        };
        self.is_over = next.is_none();
        Some(next? * self.multiple_of)
    }

    /// Records the result of probing a batch.
    pub fn tell(&mut self, batch: usize, tried: Tried) {
        self.tried.insert(batch / self.multiple_of, tried);
    }

    /// The result so far.
    pub fn found(&self) -> Found {
        let largest = self.low().map(|(number, _)| number * self.multiple_of);
        Found { largest, is_proven: self.is_over && largest.is_some() }
    }

    /// The largest candidate that fits, and its share of the plan.
    fn low(&self) -> Option<(usize, f64)> {
        self.tried.iter().rev().find_map(|(number, tried)| match tried {
            Tried::Fits { of_planned } => Some((*number, *of_planned)),
            Tried::TooLarge => None,
        })
    }

    /// The smallest candidate that is known not to fit, or the first one after the last.
    fn high(&self) -> usize {
        let above = self.low().map_or(0, |(low, _)| low + 1);
        let mut larger = self.tried.range(above..).filter(|(_, tried)| **tried == Tried::TooLarge);
        larger.next().map_or(self.last + 1, |(number, _)| *number)
    }

    /// The next candidate while none fits yet.
    fn below(&self, planned: &mut dyn Planned) -> Option<usize> {
        let (high, failures) = (self.high(), self.tried.len());
        let least = (self.first..high).find(|number| self.is_allowed(*number, planned))?;
        let available = match (self.limit_bytes, failures) {
            (None, _) => return Some(least),
            (Some(limit), 0) => limit.get() as f64,
            (Some(limit), failures) => {
                // The last probe is of the smallest batch: whether any batch fits matters most.
                let is_last = failures + 1 == self.most_tries;
                // A batch that did not fit shows that less than its plan is available.
                let less = planned.peak(high * self.multiple_of).map_or(limit, |peak| peak.min(limit));
                less.get() as f64 * LESS.get(failures - 1).filter(|_| !is_last).unwrap_or(&0.0)
            }
        };
        self.largest(least, high, available, planned).or(Some(least))
    }

    /// The next candidate after one fits: the largest that should fit by its measurement, or else the next larger one,
    /// to show that it does not fit.
    fn above(&self, low: usize, of_planned: f64, planned: &mut dyn Planned) -> Option<usize> {
        let high = self.high();
        let next = (low + 1..high).find(|number| self.is_allowed(*number, planned))?;
        let failed = self.tried.values().filter(|tried| **tried == Tried::TooLarge).count();
        let middle = (low.midpoint(high).max(next)..high).find(|number| self.is_allowed(*number, planned));
        let guess = match self.limit_bytes {
            Some(limit) => self.largest(next, high, limit.get() as f64 / of_planned.clamp(0.5, 2.0), planned),
            None if high > self.last => {
                (next.max(low * 2).min(self.last)..high).find(|number| self.is_allowed(*number, planned))
            }
            None => middle,
        };
        // After a guess that did not fit, the measurement misleads; so the search also halves the interval.
        let is_misled = failed > 0 && high <= self.last && guess.is_some();
        if is_misled { guess.min(middle.or(guess)) } else { guess.or(Some(next)) }
    }

    fn is_allowed(&self, number: usize, planned: &mut dyn Planned) -> bool {
        planned.is_allowed(number * self.multiple_of)
    }

    /// The largest candidate in `from..below` whose planned peak is at most `available` bytes. Peaks grow with the
    /// batch.
    fn largest(&self, from: usize, below: usize, available: f64, planned: &mut dyn Planned) -> Option<usize> {
        let mut fits = |number: usize| {
            // A batch that cannot be planned is too small, so it counts as fitting.
            planned.peak(number * self.multiple_of).is_none_or(|peak| peak.get() as f64 <= available)
        };
        if !fits(from) {
            return None;
        }
        let (mut low, mut high) = (from, below);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle) { low = middle } else { high = middle }
        }
        (from..=low).rev().find(|number| self.is_allowed(*number, planned))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line, which peaks nearly follow, and batches that are refused.
    struct Line {
        base: f64,
        slope: f64,
        refused: Vec<usize>,
    }

    impl Planned for Line {
        fn peak(&mut self, batch: usize) -> Option<Bytes> {
            Some(Bytes::new((self.base + self.slope * batch as f64) as u64))
        }

        fn is_allowed(&mut self, batch: usize) -> bool {
            !self.refused.contains(&batch)
        }
    }

    /// Searches where the real peak is `error` times the planned one. Returns the probes and the result.
    fn search(mut search: BatchSearch, line: &mut Line, limit: f64, error: f64) -> (Vec<usize>, Found) {
        let mut tried = Vec::new();
        while let Some(batch) = search.next(line) {
            assert!(!tried.contains(&batch), "{batch} twice: {tried:?}");
            tried.push(batch);
            let planned = line.base + line.slope * batch as f64;
            let fits = planned * error <= limit;
            search.tell(batch, if fits { Tried::Fits { of_planned: error } } else { Tried::TooLarge });
        }
        (tried, search.found())
    }

    fn line(base: f64, slope: f64) -> Line {
        Line { base, slope, refused: Vec::new() }
    }

    fn of(least: usize, most: usize, multiple_of: usize, limit: f64) -> BatchSearch {
        BatchSearch::new(least, most, multiple_of, Some(Bytes::new(limit as u64)), 6).unwrap()
    }

    #[test]
    fn an_exact_plan_takes_two_probes_and_the_largest_batch_is_probed() {
        let (tried, found) = search(of(1, 512, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!((tried, found), (vec![90, 91], Found { largest: Some(90), is_proven: true }));
        let (tried, found) = search(of(1, 64, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!((tried, found), (vec![64], Found { largest: Some(64), is_proven: true }));
    }

    #[test]
    fn a_limit_far_above_the_available_memory_does_not_mislead() {
        let (tried, found) = search(of(1, 140, 1, 8000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert!(found.largest >= Some(84) && tried.len() <= 6, "{tried:?}");
    }

    #[test]
    fn a_limit_that_a_probe_corrects_leads_to_the_largest_batch() {
        let (mut search, mut line) = (of(1, 512, 1, 1040.0), line(100.0, 1.0));
        let mut tried = Vec::new();
        while let Some(batch) = search.next(&mut line) {
            search.set_limit(Bytes::new(500));
            tried.push(batch);
            let fits = 100 + batch <= 500;
            search.tell(batch, if fits { Tried::Fits { of_planned: 1.0 } } else { Tried::TooLarge });
        }
        assert_eq!((tried, search.found().largest), (vec![512, 395, 400, 401], Some(400)));
    }

    #[test]
    fn if_the_smallest_batch_does_not_fit_nothing_is_found() {
        let (tried, found) = search(of(1, 64, 1, 105.0), &mut line(100.0, 10.0), 105.0, 1.0);
        assert_eq!((tried, found.largest), (vec![1], None));
        // With a plan that is far too low, the last probe is of the smallest batch.
        let (tried, found) = search(of(1, 512, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 20.0);
        assert_eq!((tried.last(), found.largest), (Some(&1), None));
        assert!(tried.len() <= 6, "{tried:?}");
    }

    #[test]
    fn multiples_and_refused_batches_are_respected() {
        let (tried, found) = search(of(1, 512, 7, 1000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!((tried, found.largest), (vec![84, 91], Some(84)));
        let mut refusing = Line { refused: vec![1, 90, 91], ..line(100.0, 10.0) };
        let (tried, found) = search(of(1, 512, 1, 1000.0), &mut refusing, 1000.0, 1.0);
        assert_eq!((tried, found), (vec![89, 92], Found { largest: Some(89), is_proven: true }));
        let none = BatchSearch::new(5, 6, 7, None, 6).unwrap_err();
        assert_eq!(none.to_string(), "there is no batch from 5 to 6 that is a multiple of 7");
    }

    #[test]
    fn without_a_limit_it_doubles_and_halves() {
        let search_of = BatchSearch::new(1, 4096, 1, None, 40).unwrap();
        let (tried, found) = search(search_of, &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!(found, Found { largest: Some(90), is_proven: true });
        assert!(tried.len() <= 16 && tried.starts_with(&[1, 2, 4, 8]), "{tried:?}");
    }

    proptest! {
        #[test]
        fn the_found_batch_was_probed_and_is_nearly_the_largest(
            base in 0.0..1e9f64, slope in 1e3..1e7f64, available in 1e6..4e9f64, error in 0.97..1.01f64,
            most in 1usize..2000,
        ) {
            let limit = (base + slope + available).floor();
            let largest = (((limit / error - base) / slope).floor() as usize).min(most);
            let (tried, found) = search(of(1, most, 1, limit), &mut line(base, slope), limit, error);
            prop_assert!(tried.len() <= 6, "{:?}", tried);
            let found = found.largest.unwrap_or(0);
            prop_assert!(found <= largest && (found == 0 || tried.contains(&found)));
            prop_assert!(found as f64 >= 0.97 * largest as f64 || largest - found <= 1, "{found} of {largest}: {tried:?}");
        }
    }
}
