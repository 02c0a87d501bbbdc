use std::collections::BTreeMap;

use oomph_core::Bytes;

/// Finds the largest batch that fits by trying few: it starts from what the plan says, goes on from what is measured,
/// and ends with a batch that was tried and fits, below one that was tried and does not.
///
/// It tries nothing itself: [`next`](Self::next) says which batch to try, [`tell`](Self::tell) hears what came of it.
#[derive(Clone, Debug)]
pub struct BatchSearch {
    /// The first and the last number that, times `multiple_of`, is a batch to look at.
    first: usize,
    last: usize,
    multiple_of: usize,
    limit_bytes: Option<Bytes>,
    most_tries: usize,
    tried: BTreeMap<usize, Tried>,
    /// Whether nothing is left to try, as opposed to no tries.
    is_over: bool,
}

/// What came of trying a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tried {
    /// It fits.
    Fits {
        /// What was in use, as a share of what was planned; 1 where nobody measured it.
        of_planned: f64,
    },
    /// It does not.
    TooLarge,
}

/// What is planned for batches.
pub trait Planned {
    /// The planned peak of a batch; `None` where there is no such training.
    fn peak(&mut self, batch: usize) -> Option<Bytes>;

    /// Whether the model can be trained on all that an epoch of such batches has, its last one too.
    fn is_allowed(&mut self, batch: usize) -> bool;
}

/// There is nothing to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no batch from {least} to {most}{}", multiple(*.multiple_of))]
pub struct SearchError {
    /// The smallest batch that may be.
    pub least: usize,
    /// The largest.
    pub most: usize,
    /// What it is to be a multiple of.
    pub multiple_of: usize,
}

fn multiple(of: usize) -> String {
    if of > 1 { format!(" that is a multiple of {of}") } else { String::new() }
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The largest batch that was tried and fits.
    pub largest: Option<usize>,
    /// Whether no larger one can: the next one was tried, or there is none.
    pub is_proven: bool,
}

/// Where the plan was too low already, shares of the limit to look at next. Plans were never seen to be 1 % too low, so
/// that what is below needs another reason.
const LESS: [f64; 3] = [0.99, 0.9, 0.5];

impl BatchSearch {
    /// Of batches from `least` to `most` that are multiples of `multiple_of`, with at most `most_tries`.
    ///
    /// # Errors
    /// Where there is no such batch.
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

    /// The batch to try next; `None` where the search is over.
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

    /// Hears what came of a batch.
    pub fn tell(&mut self, batch: usize, tried: Tried) {
        self.tried.insert(batch / self.multiple_of, tried);
    }

    /// What is known by now.
    pub fn found(&self) -> Found {
        let largest = self.low().map(|(number, _)| number * self.multiple_of);
        Found { largest, is_proven: self.is_over && largest.is_some() }
    }

    /// The largest that fits.
    fn low(&self) -> Option<(usize, f64)> {
        self.tried.iter().rev().find_map(|(number, tried)| match tried {
            Tried::Fits { of_planned } => Some((*number, *of_planned)),
            Tried::TooLarge => None,
        })
    }

    /// The first that is known not to fit, or the first beyond all.
    fn high(&self) -> usize {
        let above = self.low().map_or(0, |(low, _)| low + 1);
        let mut larger = self.tried.range(above..).filter(|(_, tried)| **tried == Tried::TooLarge);
        larger.next().map_or(self.last + 1, |(number, _)| *number)
    }

    /// Nothing fits yet.
    fn below(&self, planned: &mut dyn Planned) -> Option<usize> {
        let (high, failures) = (self.high(), self.tried.len());
        let least = (self.first..high).find(|number| self.is_allowed(*number, planned))?;
        let room = match (self.limit_bytes, failures) {
            (None, _) => return Some(least),
            (Some(limit), 0) => limit.get() as f64,
            (Some(limit), failures) => {
                // With the last try it is the least one: whether anything fits matters most.
                let is_last = failures + 1 == self.most_tries;
                limit.get() as f64 * LESS.get(failures - 1).filter(|_| !is_last).unwrap_or(&0.0)
            }
        };
        self.largest(least, high, room, planned).or(Some(least))
    }

    /// What fits is known: what should fit by it, or else the next one, to know that it does not.
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
        // Where guesses failed above it, the line that they are made from misleads.
        let is_misled = failed > 0 && high <= self.last && guess.is_some();
        if is_misled { guess.min(middle.or(guess)) } else { guess.or(Some(next)) }
    }

    fn is_allowed(&self, number: usize, planned: &mut dyn Planned) -> bool {
        planned.is_allowed(number * self.multiple_of)
    }

    /// The largest from `from` on and below `below` whose planned peak is at most `room`. Peaks grow with the batch.
    fn largest(&self, from: usize, below: usize, room: f64, planned: &mut dyn Planned) -> Option<usize> {
        let mut fits = |number: usize| {
            // What is no training at all is too small for one.
            planned.peak(number * self.multiple_of).is_none_or(|peak| peak.get() as f64 <= room)
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

    /// A line, as peaks nearly are, and batches that are refused.
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

    /// Searches where a batch really takes `error` of what is planned. What was tried, and what was found.
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
    fn a_right_plan_takes_two_tries_and_the_cap_is_tried() {
        let (tried, found) = search(of(1, 512, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!((tried, found), (vec![90, 91], Found { largest: Some(90), is_proven: true }));
        let (tried, found) = search(of(1, 64, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 1.0);
        assert_eq!((tried, found), (vec![64], Found { largest: Some(64), is_proven: true }));
    }

    #[test]
    fn where_not_even_the_least_fits_nothing_is_found() {
        let (tried, found) = search(of(1, 64, 1, 105.0), &mut line(100.0, 10.0), 105.0, 1.0);
        assert_eq!((tried, found.largest), (vec![1], None));
        // A plan that is far too low: the least is tried before the tries are over.
        let (tried, found) = search(of(1, 512, 1, 1000.0), &mut line(100.0, 10.0), 1000.0, 20.0);
        assert_eq!((tried.last(), found.largest), (Some(&1), None));
        assert!(tried.len() <= 6, "{tried:?}");
    }

    #[test]
    fn odd_multiples_and_refused_batches_are_kept_to() {
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
        fn what_is_found_was_tried_and_is_nearly_the_largest(
            base in 0.0..1e9f64, slope in 1e3..1e7f64, room in 1e6..4e9f64, error in 0.97..1.01f64,
            most in 1usize..2000,
        ) {
            let limit = (base + slope + room).floor();
            let largest = (((limit / error - base) / slope).floor() as usize).min(most);
            let (tried, found) = search(of(1, most, 1, limit), &mut line(base, slope), limit, error);
            prop_assert!(tried.len() <= 6, "{:?}", tried);
            let found = found.largest.unwrap_or(0);
            prop_assert!(found <= largest && (found == 0 || tried.contains(&found)));
            prop_assert!(found as f64 >= 0.97 * largest as f64 || largest - found <= 1, "{found} of {largest}: {tried:?}");
        }
    }
}
