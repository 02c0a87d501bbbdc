use std::str::FromStr;

use oomph_core::Bytes;

/// A share from 0 up to but not including 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(f64);

impl Share {
    /// The bytes without this share.
    pub(super) fn less(self, bytes: Bytes) -> Bytes {
        Bytes::new((bytes.get() as f64 * (1.0 - self.0)) as u64)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected a percentage of at least `0%` and less than `100%`, such as `5%`")]
pub(super) struct ParseShareError;

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix('%').ok_or(ParseShareError)?;
        let percent: f64 = number.trim().parse().map_err(|_| ParseShareError)?;
        if (0.0..100.0).contains(&percent) { Ok(Self(percent / 100.0)) } else { Err(ParseShareError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        let less = |text: &str| text.parse::<Share>().map(|share| share.less(Bytes::new(1000)).get()).ok();
        assert_eq!([less("0%"), less("5%"), less("12.5 %")], [Some(1000), Some(950), Some(875)]);
        for text in ["5", "0.05", "100%", "-1%", "NaN%", "%", "five%"] {
            assert_eq!(less(text), None, "{text}");
        }
    }
}
