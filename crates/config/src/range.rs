//! Ranges of numbers, in words.

use std::ops::{Bound, RangeBounds};

/// Every number greater than 0.
pub(crate) const POSITIVE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Unbounded);

/// Every number greater than 0 and less than 1.
pub(crate) const INSIDE_UNIT: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Excluded(1.0));

/// A range of integers in words: "an integer of at least 1".
pub fn integers_in_words(range: &impl RangeBounds<usize>) -> String {
    let low = match range.start_bound() {
        Bound::Included(low) => *low,
        Bound::Excluded(low) => low.saturating_add(1),
        Bound::Unbounded => 0,
    };
    match range.end_bound() {
        Bound::Included(high) => format!("an integer from {low} to {high}"),
        Bound::Excluded(high) => format!("an integer from {low} to {}", high.saturating_sub(1)),
        Bound::Unbounded => format!("an integer of at least {low}"),
    }
}

/// A range of numbers in words: "a number from 0 up to but not including 1".
pub(crate) fn numbers_in_words(range: &impl RangeBounds<f64>) -> String {
    use Bound::{Excluded, Included, Unbounded};
    match (range.start_bound(), range.end_bound()) {
        (Unbounded, Unbounded) => "a number".to_owned(),
        (Included(low), Unbounded) => format!("a number of at least {low}"),
        (Excluded(low), Unbounded) => format!("a number greater than {low}"),
        (Unbounded, Included(high)) => format!("a number of at most {high}"),
        (Unbounded, Excluded(high)) => format!("a number less than {high}"),
        (Included(low), Included(high)) => format!("a number from {low} to {high}"),
        (Included(low), Excluded(high)) => format!("a number from {low} up to but not including {high}"),
        (Excluded(low), Included(high)) => format!("a number greater than {low} and at most {high}"),
        (Excluded(low), Excluded(high)) => format!("a number greater than {low} and less than {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_integers_read_as_words() {
        assert_eq!(integers_in_words(&(1..)), "an integer of at least 1");
        assert_eq!(integers_in_words(&(..)), "an integer of at least 0");
        assert_eq!(integers_in_words(&(2..=7)), "an integer from 2 to 7");
        assert_eq!(integers_in_words(&(2..7)), "an integer from 2 to 6");
    }

    #[test]
    fn ranges_of_numbers_read_as_words() {
        let above = (Bound::Excluded(0.0), Bound::Unbounded);
        let inside = (Bound::Excluded(0.0), Bound::Excluded(1.0));
        let upper = (Bound::Excluded(0.0), Bound::Included(1.0));
        assert_eq!(numbers_in_words(&(..)), "a number");
        assert_eq!(numbers_in_words(&(0.0..)), "a number of at least 0");
        assert_eq!(numbers_in_words(&above), "a number greater than 0");
        assert_eq!(numbers_in_words(&(..=1.0)), "a number of at most 1");
        assert_eq!(numbers_in_words(&(..1.0)), "a number less than 1");
        assert_eq!(numbers_in_words(&(0.0..=0.5)), "a number from 0 to 0.5");
        assert_eq!(numbers_in_words(&(0.0..1.0)), "a number from 0 up to but not including 1");
        assert_eq!(numbers_in_words(&inside), "a number greater than 0 and less than 1");
        assert_eq!(numbers_in_words(&upper), "a number greater than 0 and at most 1");
    }
}
