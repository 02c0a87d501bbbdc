//! Values that are counts.

use std::ops::RangeBounds;

use oomph_config::range::integers_in_words;

/// A parser of an integer in `range`, which says what it expects in the words of the configuration.
///
/// ```
/// let steps = oomph_arguments::count(1..=1000);
/// assert_eq!(steps("20"), Ok(20));
/// assert_eq!(steps("0").unwrap_err(), "expected an integer from 1 to 1000");
/// ```
pub fn count(
    range: impl RangeBounds<usize> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| format!("expected {}", integers_in_words(&range)))
    }
}
