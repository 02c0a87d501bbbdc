//! The value of `--seeds`.

use std::{collections::BTreeSet, str::FromStr};

/// More seeds than anybody trains one after the other: a longer range is a typing error.
const MOST: u64 = 1000;

/// Seeds in the order in which they train.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    /// `0,1,2`, and ranges as in Rust: `0..3` is 0, 1 and 2, and `0..=3` has 3 too. Both may be mixed.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            match part.split_once("..") {
                None => seeds.push(seed(part)?),
                Some((first, last)) => {
                    let (last, is_closed) = last.strip_prefix('=').map_or((last, false), |last| (last, true));
                    let (first, last) = (seed(first)?, seed(last)?);
                    let end = if is_closed { last.saturating_add(1) } else { last };
                    if end <= first {
                        return Err(format!("`{part}` is an empty range; `{last}..={first}` is not"));
                    }
                    if end - first > MOST {
                        return Err(format!("`{part}` has more than {MOST} seeds"));
                    }
                    seeds.extend(first..end);
                }
            }
        }
        let mut seen = BTreeSet::new();
        match seeds.iter().find(|seed| !seen.insert(**seed)) {
            Some(twice) => Err(format!("seed {twice} is named twice")),
            None => Ok(Self(seeds)),
        }
    }
}

fn seed(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| {
        format!("expected seeds such as `0,1,2` or a range such as `0..5` (0 to 4), got `{}`", text.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(text: &str) -> Result<Vec<u64>, String> {
        text.parse().map(|Seeds(seeds)| seeds)
    }

    #[test]
    fn lists_and_ranges_name_seeds() {
        assert_eq!(seeds("7"), Ok(vec![7]));
        assert_eq!(seeds("0, 2,1"), Ok(vec![0, 2, 1]));
        assert_eq!(seeds("0..4"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(seeds("3..=5,9"), Ok(vec![3, 4, 5, 9]));
    }

    #[test]
    fn a_bad_list_says_what_is_wrong() {
        for (text, says) in [
            ("", "got ``"),
            ("1,x", "got `x`"),
            ("-1", "got `-1`"),
            ("0..", "got ``"),
            ("4..4", "empty range"),
            ("5..=4", "empty range"),
            ("0..100000", "more than 1000"),
            ("0..3,2", "seed 2 is named twice"),
        ] {
            let error = seeds(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
