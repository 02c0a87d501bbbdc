//! Where the samples of a text begin.

use std::ops::Range;

use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, Key};

/// `data.windows`: where the shuffled samples of a training begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// At the multiples of `data.steps`, behind an offset that each epoch draws.
    Shifted,
    /// At the multiples of `data.steps`, in every epoch.
    Fixed,
}

impl Windows {
    /// Reads the key. Samples that carry a state follow each other from the start of the text.
    pub(super) fn read(section: &Section, carry: bool) -> Result<Self, ConfigError> {
        let windows =
            section.choice("windows", "shifted", &[("shifted", Self::Shifted), ("fixed", Self::Fixed)])?;
        if carry {
            section.has_no_effect("windows", "`data.carry` is `true`");
            return Ok(Self::Fixed);
        }
        Ok(windows)
    }

    /// The tokens by which all samples of an epoch begin later: below `steps`, drawn by the key of the epoch.
    pub(super) fn offset(self, steps: usize, epoch: Key) -> usize {
        match self {
            Self::Shifted => Generator::at(epoch.with_name("windows")).below(steps),
            Self::Fixed => 0,
        }
    }
}

/// The tokens from `from` on, `count` of a part of `len`: those up to its end, and those that follow from its start on. The
/// last sample of an epoch alone passes the end, so an offset costs no sample, and no token is twice in an epoch.
pub(super) fn wrapped(from: u64, count: u64, len: u64) -> [Range<u64>; 2] {
    let end = from + count;
    [from..end.min(len), 0..end.saturating_sub(len)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The inputs of an epoch, whatever its offset: as many samples as without, and no token twice.
        #[test]
        fn windows_do_not_overlap(len in 2usize..500, steps in 1usize..40, seed in any::<u64>()) {
            prop_assume!(len > steps);
            let offset = Windows::Shifted.offset(steps, Key::new(seed));
            prop_assert!(offset < steps);
            let mut seen = vec![false; len];
            for index in 0..(len - 1) / steps {
                let ranges = wrapped((offset + index * steps) as u64, steps as u64 + 1, len as u64);
                let tokens: Vec<_> = ranges.into_iter().flatten().map(|token| token as usize).collect();
                prop_assert_eq!(tokens.len(), steps + 1);
                prop_assert!(tokens.windows(2).all(|pair| pair[1] == (pair[0] + 1) % len));
                for token in &tokens[..steps] {
                    prop_assert!(!std::mem::replace(&mut seen[*token], true));
                }
            }
        }
    }

    #[test]
    fn epochs_draw_all_offsets_and_the_same_key_the_same_one() {
        let offset = |epoch| Windows::Shifted.offset(8, Key::new(7).with(epoch));
        let drawn: std::collections::BTreeSet<_> = (0..100).map(offset).collect();
        assert_eq!(drawn, (0..8).collect());
        assert_eq!(offset(3), offset(3));
        assert_eq!(Windows::Fixed.offset(8, Key::new(7)), 0);
    }

    #[test]
    fn the_offsets_never_change_between_versions() {
        // A later version that resumes a run must continue in the same windows, so these are frozen.
        let epochs = (0..8).map(|epoch| crate::sampling::augment_key(42, epoch));
        let offsets: Vec<_> = epochs.map(|epoch| Windows::Shifted.offset(256, epoch)).collect();
        assert_eq!(offsets, FROZEN);
    }
    const FROZEN: [usize; 8] = [108, 75, 154, 102, 157, 145, 65, 230];
}
